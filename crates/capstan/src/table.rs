//! Text in columns: a line per row, each column as wide as need be.

/// How a column is aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// To the left.
    Left,
    /// To the right, as numbers are.
    Right,
}

/// The rows under a head, in columns.
pub fn table<const N: usize>(head: [(&str, Align); N], rows: Vec<[String; N]>) -> String {
    let titles = head.map(|(title, _)| title.to_owned());
    let rows: Vec<[String; N]> = std::iter::once(titles).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|r| r[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for row in &rows {
        let cells =
            row.iter().zip(widths).zip(head).map(|((cell, width), (_, align))| match align {
                Align::Right => format!("{cell:>width$}"),
                Align::Left => format!("{cell:<width$}"),
            });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Names and values, a line each; those without a value are left out.
pub fn fields(lines: &[(&str, String)]) -> String {
    let width = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let lines = lines.iter().filter(|(_, value)| !value.is_empty());
    lines.map(|(name, value)| format!("{name:<width$}  {value}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = vec![["a".to_owned(), "12".to_owned()], ["longer".to_owned(), "3".to_owned()]];
        let text = table([("Name", Align::Left), ("N", Align::Right)], rows);
        assert_eq!(text, "Name     N\na       12\nlonger   3\n");
        assert_eq!(fields(&[("A", "1".into()), ("Long", String::new())]), "A     1\n");
    }
}
