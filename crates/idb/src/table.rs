//! A table as a Parquet file, written row by row: what lies in catalogs, for tools that read tables.
//!
//! Rows are gathered column by column and go out as row groups of bounded size, so memory stays the same however many there
//! are, apart from the places of the groups: a fifth of a byte for each row. All columns may have no value.

use std::io::{self, Write};
use std::iter::repeat_n;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{
    Compression, Encoding, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel,
};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type};

/// Most rows of a group: readers work on several groups at once.
const GROUP_ROWS: usize = 131_072;
/// Bytes of text that end a group: where they lie in it are numbers of 32 bits.
const GROUP_TEXT: usize = 12 << 20;

/// What the values of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// Text of few different values, or of many that follow each other.
    Word,
    /// Text that begins as the one before it does.
    Sorted,
    /// Any bytes.
    Bytes,
    /// A whole number.
    Number,
    /// A number without sign.
    Unsigned,
    /// Random bits, as a number without sign.
    Checksum,
    /// A time in microseconds since 1970, UTC.
    Time,
}

/// A value of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// None.
    Null,
    /// Of a column of text or bytes.
    Text(&'a [u8]),
    /// Of any other.
    Number(i64),
}

/// Writes a table.
pub struct TableWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
    columns: Vec<Column>,
    rows: usize,
    text: usize,
}

/// The values of a column that wait for their group to be written.
struct Column {
    is_text: bool,
    /// The texts, one after the other.
    text: Vec<u8>,
    /// The values: one for rows that follow each other and have the same.
    runs: Vec<Run>,
}

/// A value of so many rows.
struct Run {
    /// The number, or where the text begins and ends.
    value: u64,
    rows: u32,
    /// Whether there is one.
    present: bool,
}

impl<W: Write + Send> TableWriter<W> {
    /// A table of those columns, in that order.
    pub fn new(to: W, columns: &[(&str, ColumnKind)]) -> io::Result<Self> {
        let fields = columns.iter().map(|(name, kind)| field(name, *kind).map(Arc::new));
        let fields = fields.collect::<Result<_, _>>().map_err(plain)?;
        let schema =
            Type::group_type_builder("files").with_fields(fields).build().map_err(plain)?;
        let properties = Arc::new(properties(columns).map_err(plain)?);
        let file = SerializedFileWriter::new(to, Arc::new(schema), properties).map_err(plain)?;
        let column = |(_, kind): &(&str, ColumnKind)| Column {
            is_text: matches!(kind, ColumnKind::Word | ColumnKind::Sorted | ColumnKind::Bytes),
            text: Vec::new(),
            runs: Vec::new(),
        };
        Ok(Self { file, columns: columns.iter().map(column).collect(), rows: 0, text: 0 })
    }

    /// Writes a row: a value for each column. One of another kind than its column counts as none.
    pub fn write(&mut self, row: &[Value<'_>]) -> io::Result<()> {
        for (column, value) in self.columns.iter_mut().zip(row) {
            self.text += column.push(*value);
        }
        self.rows += 1;
        if self.rows >= GROUP_ROWS || self.text >= GROUP_TEXT {
            self.end_group()?;
        }
        Ok(())
    }

    /// Writes what is left and the end of the file; returns what it was written to.
    pub fn finish(mut self) -> io::Result<W> {
        self.end_group()?;
        self.file.into_inner().map_err(plain)
    }

    fn end_group(&mut self) -> io::Result<()> {
        if self.rows > 0 {
            self.write_group().map_err(plain)?;
        }
        (self.rows, self.text) = (0, 0);
        Ok(())
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.file.next_row_group()?;
        let mut levels: Vec<i16> = Vec::with_capacity(self.rows);
        for column in &mut self.columns {
            let Some(mut writer) = group.next_column()? else { break };
            levels.clear();
            for run in &column.runs {
                levels.extend(repeat_n(i16::from(run.present), run.rows as usize));
            }
            let present = column.runs.iter().filter(|run| run.present);
            let times = |run: &Run| run.rows as usize;
            if column.is_text {
                let text = Bytes::from(mem::take(&mut column.text));
                let value = |run: &Run| ByteArray::from(text.slice(run.range()));
                let values: Vec<ByteArray> =
                    present.flat_map(|run| repeat_n(value(run), times(run))).collect();
                writer.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)?;
            } else {
                let values: Vec<i64> =
                    present.flat_map(|run| repeat_n(run.value as i64, times(run))).collect();
                writer.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
            }
            writer.close()?;
            column.runs.clear();
        }
        group.close()?;
        Ok(())
    }
}

impl Run {
    fn range(&self) -> Range<usize> {
        (self.value >> 32) as usize..(self.value & u64::from(u32::MAX)) as usize
    }
}

impl Column {
    /// Adds a value; returns the bytes of text that it takes.
    fn push(&mut self, value: Value<'_>) -> usize {
        let last = self.runs.last_mut();
        let (value, present, taken) = match value {
            Value::Text(bytes) if self.is_text => {
                if let Some(run) = last
                    && run.present
                    && self.text[run.range()] == *bytes
                {
                    run.rows += 1;
                    return 0;
                }
                let begin = self.text.len() as u64;
                self.text.extend_from_slice(bytes);
                (begin << 32 | self.text.len() as u64, true, bytes.len())
            }
            Value::Number(number) if !self.is_text => (number as u64, true, 0),
            _ => (0, false, 0),
        };
        match self.runs.last_mut() {
            Some(run) if (run.value, run.present) == (value, present) => run.rows += 1,
            _ => self.runs.push(Run { value, rows: 1, present }),
        }
        taken
    }
}

fn field(name: &str, kind: ColumnKind) -> Result<Type, ParquetError> {
    let (physical, logical) = match kind {
        ColumnKind::Word | ColumnKind::Sorted => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        ColumnKind::Bytes => (Physical::BYTE_ARRAY, None),
        ColumnKind::Number => (Physical::INT64, None),
        ColumnKind::Unsigned | ColumnKind::Checksum => {
            (Physical::INT64, Some(LogicalType::integer(64, false)))
        }
        ColumnKind::Time => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MICROS))),
    };
    Type::primitive_type_builder(name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(logical)
        .build()
}

fn properties(columns: &[(&str, ColumnKind)]) -> Result<WriterProperties, ParquetError> {
    let mut builder = WriterProperties::builder()
        .set_created_by(concat!("capstan ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        // What is said of pages and columns of groups is kept in memory up to the end.
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true);
    for (name, kind) in columns {
        builder = encoded(builder, ColumnPath::from(*name), *kind);
    }
    Ok(builder.build())
}

fn encoded(
    builder: WriterPropertiesBuilder,
    column: ColumnPath,
    kind: ColumnKind,
) -> WriterPropertiesBuilder {
    // By these readers find which groups they need.
    let builder = match kind {
        ColumnKind::Sorted | ColumnKind::Time => {
            builder.set_column_statistics_enabled(column.clone(), EnabledStatistics::Chunk)
        }
        _ => builder,
    };
    let encoding = match kind {
        ColumnKind::Word => return builder,
        ColumnKind::Sorted => Encoding::DELTA_BYTE_ARRAY,
        ColumnKind::Bytes | ColumnKind::Checksum => Encoding::PLAIN,
        ColumnKind::Number | ColumnKind::Unsigned | ColumnKind::Time => {
            Encoding::DELTA_BINARY_PACKED
        }
    };
    builder
        .set_column_dictionary_enabled(column.clone(), false)
        .set_column_encoding(column, encoding)
}

/// What the system said, where it was the system.
fn plain(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(cause) => match cause.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(cause) => io::Error::other(cause),
        },
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    const COLUMNS: [(&str, ColumnKind); 4] = [
        ("word", ColumnKind::Word),
        ("path", ColumnKind::Sorted),
        ("number", ColumnKind::Number),
        ("sum", ColumnKind::Checksum),
    ];

    #[test]
    fn rows_of_many_groups_read_back() {
        let mut table = TableWriter::new(Vec::new(), &COLUMNS).unwrap();
        let rows = GROUP_ROWS as i64 * 2 + 5;
        for n in 0..rows {
            let path = format!("/srv/{n:09}");
            let word = if n % 1000 < 500 { Value::Text(b"a") } else { Value::Null };
            let row = [word, Value::Text(path.as_bytes()), Value::Number(n), Value::Number(-n)];
            table.write(&row).unwrap();
        }
        let file = SerializedFileReader::new(Bytes::from(table.finish().unwrap())).unwrap();
        assert_eq!(file.metadata().num_row_groups(), 3);
        for (n, row) in (0..).zip(file.get_row_iter(None).unwrap()) {
            let row = row.unwrap();
            assert_eq!(row.get_string(0).ok().map(String::as_str), (n % 1000 < 500).then_some("a"));
            assert_eq!(*row.get_string(1).unwrap(), format!("/srv/{n:09}"));
            assert_eq!(row.get_long(2).unwrap(), n);
            assert_eq!(row.get_ulong(3).unwrap(), (-n) as u64);
            assert!(n < rows);
        }
        assert_eq!(file.metadata().file_metadata().num_rows(), rows);
    }

    #[test]
    fn long_texts_end_a_group_early() {
        let mut table = TableWriter::new(Vec::new(), &COLUMNS[1..2]).unwrap();
        let long = vec![b'x'; 1 << 20];
        for n in 0..20u8 {
            table.write(&[Value::Text(&[&long[..], &[n]].concat())]).unwrap();
        }
        let file = SerializedFileReader::new(Bytes::from(table.finish().unwrap())).unwrap();
        assert_eq!(file.metadata().num_row_groups(), 2);
    }

    #[test]
    fn what_the_system_says_is_said() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let table = TableWriter::new(Full, &COLUMNS).and_then(|mut table| {
            table.write(&[Value::Null; 4])?;
            table.finish()
        });
        assert_eq!(table.err().unwrap().kind(), io::ErrorKind::StorageFull);
    }
}
