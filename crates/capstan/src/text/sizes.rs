//! Sizes and ranges as people type them: `64K`, `10G`, `500MB`, `1M..10G`.

use std::ops::RangeInclusive;

use capstan_engine::problem::Problem;

/// The suffixes by power: `K`, `KiB` are 1024, `KB` is 1000.
const POWERS: &str = "KMGTP";

/// Reads a size. `K`, `M`, `G`, `T`, `P` and `KiB`, `MiB`, … are powers of 1024 (as in tar and dd), `KB`, `MB`, … powers of
/// 1000; capitals do not matter; `B` or nothing is bytes.
pub fn parse_size(text: &str) -> Result<u64, Problem> {
    let bad = || {
        Problem::new(format!("'{text}' is not a size"))
            .hint("write 512, 64K, 1M or 10G (KB, MB, GB: powers of 1000)")
    };
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, suffix) = text.split_at(digits);
    let suffix = suffix.to_ascii_uppercase();
    let factor = match suffix.as_bytes() {
        [] | [b'B'] => 1,
        [unit] | [unit, b'I', b'B'] => power(*unit, 1024).ok_or_else(bad)?,
        [unit, b'B'] => power(*unit, 1000).ok_or_else(bad)?,
        _ => return Err(bad()),
    };
    if number.is_empty() {
        return Err(bad());
    }
    let too_large = || {
        Problem::new(format!("'{text}' is too large"))
            .hint("the largest size is 16 EiB less one byte")
    };
    number.parse::<u64>().ok().and_then(|n| n.checked_mul(factor)).ok_or_else(too_large)
}

fn power(unit: u8, base: u64) -> Option<u64> {
    let exponent = POWERS.bytes().position(|p| p == unit)? as u32 + 1;
    base.checked_pow(exponent)
}

/// Reads a size that has to fit into 32 bits.
pub fn parse_size_u32(text: &str) -> Result<u32, Problem> {
    let size = parse_size(text)?;
    u32::try_from(size)
        .map_err(|_| Problem::new(format!("'{text}' is too large")).hint("it has to be below 4G"))
}

/// Reads a range of sizes, both ends included: `1M..10G`, `..64K`, `1G..`.
pub fn parse_range(text: &str) -> Result<RangeInclusive<u64>, Problem> {
    let wrong =
        |what: &str| Problem::new(format!("'{text}' {what}")).hint("write 1M..10G, ..64K or 1G..");
    let Some((low, high)) = text.split_once("..") else { return Err(wrong("is not a range")) };
    if low.is_empty() && high.is_empty() {
        return Err(wrong("has neither begin nor end"));
    }
    let low = if low.is_empty() { 0 } else { parse_size(low)? };
    let high = if high.is_empty() { u64::MAX } else { parse_size(high)? };
    if low > high {
        return Err(Problem::new(format!("'{text}' has its larger end first"))
            .hint("write the smaller size first"));
    }
    Ok(low..=high)
}

/// Bytes in units of powers of ten, as every output has them: `12 B`, `3.4 kB`, `120 MB`, `1.25 GB`.
pub fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64;
    let mut unit = 0;
    // 999.95 would print as 1000.
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = if value < 9.995 {
        2
    } else if value < 99.95 {
        1
    } else {
        0
    };
    format!("{value:.digits$} {}", UNITS[unit])
}

/// A number with a comma before each group of three digits.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Seconds as `0.4 s`, `42 s`, `3:05`, `1:02:03`.
pub fn seconds_text(seconds: f64) -> String {
    // What is no number, negative or beyond all bounds saturates.
    let whole = seconds.round() as u64;
    match whole {
        0..10 => format!("{:.1} s", seconds.max(0.0)),
        10..60 => format!("{whole} s"),
        60..3600 => format!("{}:{:02}", whole / 60, whole % 60),
        _ => format!("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary_unless_they_say_otherwise() {
        let cases = [
            ("0", 0),
            ("512", 512),
            ("512B", 512),
            ("64K", 64 << 10),
            ("64k", 64 << 10),
            ("64KiB", 64 << 10),
            ("1M", 1 << 20),
            ("10G", 10 << 30),
            ("2T", 2 << 40),
            ("3P", 3 << 50),
            ("5KB", 5000),
            ("5kB", 5000),
            ("1GB", 1_000_000_000),
            ("18446744073709551615", u64::MAX),
        ];
        for (text, size) in cases {
            assert_eq!(parse_size(text), Ok(size), "{text}");
        }
        for bad in [
            "",
            "K",
            "-1",
            "1.5G",
            "1X",
            "1 K",
            "1KK",
            "1iB",
            "16384P",
            "18446744073709551616",
            "1é",
        ] {
            let error = parse_size(bad).unwrap_err();
            assert!(error.sentence.contains(&format!("'{bad}'")), "{error}");
        }
        assert_eq!(parse_size_u32("1M"), Ok(1 << 20));
        assert!(parse_size_u32("4G").is_err());
    }

    #[test]
    fn ranges_include_both_ends_and_may_lack_one() {
        assert_eq!(parse_range("1M..10G"), Ok(1 << 20..=10 << 30));
        assert_eq!(parse_range("..64K"), Ok(0..=64 << 10));
        assert_eq!(parse_range("1G.."), Ok(1 << 30..=u64::MAX));
        assert_eq!(parse_range("7..7"), Ok(7..=7));
        for bad in ["", "..", "1M", "2..1", "a..b", "1...2", "1..2..3"] {
            assert!(parse_range(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn numbers_print_short_and_never_round_to_a_fourth_digit() {
        let cases = [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.00 kB"),
            (9_994, "9.99 kB"),
            (9_996, "10.0 kB"),
            (999_499, "999 kB"),
            (999_500, "1.00 MB"),
            (123_456_789, "123 MB"),
            (u64::MAX, "18.4 EB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(bytes_text(bytes), text);
        }
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(seconds_text(0.44), "0.4 s");
        assert_eq!(seconds_text(59.4), "59 s");
        assert_eq!(seconds_text(59.6), "1:00");
        assert_eq!(seconds_text(3723.0), "1:02:03");
        assert_eq!(seconds_text(f64::NAN), "0.0 s");
    }
}
