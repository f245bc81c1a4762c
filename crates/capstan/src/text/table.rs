//! Text in columns: a line per row, each column as wide as need be.

use capstan_engine::message::safe_text;

/// The widest cell of a table, in characters: wider ones are cut, which their last character says.
const CELL_MAX: usize = 100;
/// The longest value beside a name.
const VALUE_MAX: usize = 4000;

/// How a column is aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// To the left.
    Left,
    /// To the right, as numbers are.
    Right,
}

/// The rows under a head, in columns. Cells are made safe for a terminal; where some had to be cut, a last line says so.
pub fn table<const N: usize>(head: [(&str, Align); N], rows: Vec<[String; N]>) -> String {
    let all: Vec<usize> = (0..N).collect();
    shown(&all, head, rows)
}

/// The same, without columns in which no row has anything.
pub fn columns<const N: usize>(head: [(&str, Align); N], rows: Vec<[String; N]>) -> String {
    let used = |column: &usize| rows.iter().any(|row| !row[*column].is_empty());
    let used: Vec<usize> = (0..N).filter(used).collect();
    shown(&used, head, rows)
}

fn shown<const N: usize>(
    shown: &[usize],
    head: [(&str, Align); N],
    rows: Vec<[String; N]>,
) -> String {
    let titles = head.map(|(title, _)| title.to_owned());
    let mut were_cut = false;
    let mut rows: Vec<[String; N]> = std::iter::once(titles).chain(rows).collect();
    for cell in rows.iter_mut().flatten() {
        let (text, is_cut) = cut(&safe_text(cell), CELL_MAX);
        *cell = text;
        were_cut |= is_cut;
    }
    let width = |column: usize| rows.iter().map(|r| r[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for row in &rows {
        let cells = shown.iter().map(|&column| {
            let (cell, width) = (&row[column], widths[column]);
            match head[column].1 {
                Align::Right => format!("{cell:>width$}"),
                Align::Left => format!("{cell:<width$}"),
            }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    if were_cut {
        text.push_str("(… is where a cell was cut; --json has all of it)\n");
    }
    text
}

/// Names and values, a line each; those without a value are left out.
pub fn fields(lines: &[(&str, String)]) -> String {
    let width = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let lines = lines.iter().filter(|(_, value)| !value.is_empty());
    let line = |(name, value): &(&str, String)| {
        let (value, _) = cut(&safe_text(value), VALUE_MAX);
        format!("{name:<width$}  {value}\n")
    };
    lines.map(line).collect()
}

/// The text, or as much of it as so many characters hold, with `…` for the rest; whether it was cut.
pub fn cut(text: &str, most: usize) -> (String, bool) {
    match text.char_indices().nth(most) {
        None => (text.to_owned(), false),
        Some(_) => {
            let kept: String = text.chars().take(most.saturating_sub(1)).collect();
            (kept + "…", true)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = vec![["a".to_owned(), "12".to_owned()], ["longer".to_owned(), "3".to_owned()]];
        let text = table([("Name", Align::Left), ("N", Align::Right)], rows);
        assert_eq!(text, "Name     N\na       12\nlonger   3\n");
        let rows = vec![["a".to_owned(), String::new(), "1".to_owned()]];
        let head = [("Name", Align::Left), ("Tags", Align::Left), ("N", Align::Right)];
        assert_eq!(columns(head, rows), "Name  N\na     1\n");
        assert_eq!(fields(&[("A", "1".into()), ("Long", String::new())]), "A     1\n");
    }

    #[test]
    fn cells_of_any_length_are_cut_and_said() {
        let rows = vec![["é".repeat(70_000), "12".to_owned()], ["a\u{202e}".into(), "3".into()]];
        let text = table([("Name", Align::Left), ("N", Align::Right)], rows);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert_eq!(lines[1], format!("{}…  12", "é".repeat(99)));
        assert!(lines[2].starts_with("a\\u{202e} "), "{text}");
        assert!(lines[3].contains("was cut"), "{text}");
        assert_eq!(cut("abc", 3), ("abc".to_owned(), false));
        assert_eq!(cut("abcd", 3), ("ab…".to_owned(), true));
        assert!(fields(&[("A", "x".repeat(100_000))]).len() < 5000);
    }
}
