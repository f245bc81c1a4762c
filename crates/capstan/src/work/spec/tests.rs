use capstan_cell::request::Compression;

use super::*;

fn read_ok(text: &str) -> Spec {
    parse(Path::new("x.toml"), text).unwrap_or_else(|m| panic!("{m:#?}"))
}

/// Line and a word of each mistake.
fn mistakes(text: &str) -> Vec<(usize, String)> {
    let found = parse(Path::new("x.toml"), text).expect_err("no mistake");
    found.into_iter().map(|m| (m.line, m.text)).collect()
}

#[test]
fn a_whole_specification() {
    let spec = read_ok(
        r#"
device = "/mnt/backup"
home = "/srv/home"
key-file = "/root/key"

[options]
compress = "off"
exclude = ["*.o"]
exclude-caches = true
streams = 3
level = 1

[[object]]
name = "etc"
paths = ["/etc", "/usr/local/etc"]
exclude = "*.bak"
compress = "zstd:9"
full = true

[[object]]
name = "shop"
from-command = "pg_dump shop"
stdin-name = "shop.sql"
to = "null:"

[keep]
daily = 7
weekly = "unlimited"
within = "30d"
tag = ["audit"]

[commands]
pre = "mount /mnt/backup"
post = ["sync", "umount /mnt/backup"]

[webhook]
url = "https://example.org/hook"
timeout = "10s"
headers = { Authorization = "Bearer x" }
"#,
    );
    let [etc, shop] = &spec.objects[..] else { panic!("{spec:?}") };
    assert_eq!((etc.name.as_deref(), etc.paths.len(), etc.tune.streams), (Some("etc"), 2, Some(3)));
    assert_eq!(etc.select.exclude, ["*.o", "*.bak"]);
    assert!(etc.select.exclude_caches && etc.full && etc.level.is_none());
    assert!(matches!(etc.tune.compress, Compression::Fixed(_)));
    assert!(matches!(shop.tune.compress, Compression::Off));
    assert_eq!(
        (etc.to.device().to_string().as_str(), shop.to.device().to_string().as_str()),
        ("file:/mnt/backup", "null:")
    );
    assert_eq!(shop.input.from_command.as_deref(), Some("pg_dump shop"));
    let keep = spec.keep.unwrap();
    assert_eq!(
        (keep.daily, keep.weekly),
        (Some(capstan_cell::prune::Count::Last(7)), Some(capstan_cell::prune::Count::Unlimited))
    );
    assert!(keep.within.is_some() && keep.hourly.is_none());
    assert_eq!(keep.tags, [["audit"]]);
    assert_eq!((spec.pre.len(), spec.post.len()), (1, 2));
    let hook = spec.webhook.unwrap();
    assert_eq!((hook.headers.len(), hook.timeout), (1, Duration::from_secs(10)));
}

#[test]
fn all_mistakes_come_at_once_each_with_its_line() {
    let found = mistakes(
        r#"device = "/m"
colour = "red"
[options]
exclude_caches = true
compress = "gzip"
streams = "many"
one-file-system = "yes"
[[object]]
paths = ["etc"]
exclude = ["a["]
json = true
[[object]]
name = "b"
[[object]]
name = "c"
paths = ["/c"]
[[object]]
name = "c"
paths = ["/d"]
incr = true
full = true
[keep]
daily = 0
within = "long"
often = 1
[webhook]
timeout = "5m"
"#,
    );
    let expected = [
        (2, "'colour'"),
        (4, "write exclude-caches"),
        (5, "gzip"),
        (6, "many"),
        (7, "true or false"),
        (8, "relative"),
        (10, "a["),
        (11, "'json'"),
        (12, "no paths"),
        (17, "cannot be used with"),
        (23, "not a number of versions"),
        (24, "no span"),
        (25, "'often'"),
        (26, "no url"),
        (27, "5min or 5mo"),
    ];
    for (line, words) in expected {
        assert!(
            found.iter().any(|(l, t)| *l == line && t.contains(words)),
            "{line} {words}: {found:#?}"
        );
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
}

#[test]
fn relative_paths_are_refused_wherever_they_stand() {
    let found = mistakes(
        r#"
device = "/m"
[[object]]
paths = ["/a"]
[stage]
from = "disk"
to = "stage/tape"
[notify]
mail = "root@example.org"
smtp = "mail.example.org"
user = "x"
password-file = "secret"
ca = "ca.pem"
"#,
    );
    let lines: Vec<usize> = found.iter().map(|mistake| mistake.0).collect();
    assert_eq!(lines, [7, 12, 13], "{found:#?}");
    assert!(found.iter().all(|mistake| mistake.1.contains("is relative")), "{found:#?}");
    let sendmail = "device = \"/m\"\n[[object]]\npaths = \"/a\"\n[notify]\nmail = \"a@b.c\"\nsendmail = \"bin/mail\"\n";
    assert_eq!(mistakes(sendmail)[0].0, 6);
}

#[test]
fn syntax_and_what_is_missing() {
    assert!(mistakes("device = \"/m\"\n\n[[object\n")[0].0 >= 3);
    assert!(mistakes("").iter().any(|m| m.1.contains("nothing to back up")));
    assert!(mistakes("[[object]]\npaths = [\"/a\"]\n")[0].1.contains("no device"));
    let twice = "device = \"/m\"\n[[object]]\nname = \"a\"\npaths = \"/a\"\n[[object]]\nname = \"a\"\npaths = \"/b\"\n";
    assert_eq!(mistakes(twice)[0].0, 5);
    let alike =
        "device = \"/m\"\n[[object]]\nfrom-command = \"a\"\n[[object]]\nfrom-command = \"b\"\n";
    let found = mistakes(alike);
    assert!(
        found[0].0 == 4 && found[0].1.contains("'stdin'") && found[0].1.contains("name ="),
        "{found:?}"
    );
    let own = alike.replace("\"b\"\n", "\"b\"\nstdin-name = \"b\"\n");
    assert!(parse(Path::new("/s.toml"), &own).is_ok());
    let stdin = "device = \"/m\"\n[[object]]\nfiles-from = \"-\"\n";
    assert!(mistakes(stdin)[0].1.contains("standard input"));
    // It would be called by what is in the file.
    let listed = stdin.replace("\"-\"", "\"/etc/list\"");
    let found = mistakes(&listed);
    assert!(
        found[0].0 == 2 && found[0].1.contains("no name") && found[0].1.contains("name = "),
        "{found:?}"
    );
    assert!(parse(Path::new("/s.toml"), &format!("{listed}name = \"list\"\n")).is_ok());
}

#[test]
fn a_place_is_the_same_in_each_working_directory() {
    let text = "device = \"backup\"\nhome = \"h\"\n[options]\nexclude-from = [\"/x\", \"lists/x\"]\n\
        [[object]]\npaths = [\"/a\"]\nmirror = [\"/m2\", \"file:m\"]\n\
        [[object]]\nname = \"b\"\nfiles-from = \"list\"\n\
        [[object]]\npaths = [\"/c\"]\nto = \"rait1:/a,b\"\n\
        [[object]]\npaths = [\"/d\"]\nto = \"vtape:vtl?tape=A00001L9\"\n\
        [[object]]\npaths = [\"/e\"]\nto = \"pool:office\"\n";
    let found = mistakes(text);
    let expected = [
        (1, "'backup'"),
        (2, "'h'"),
        (4, "'lists/x'"),
        (7, "'m'"),
        (10, "'list'"),
        (13, "'b'"),
        (16, "'vtl'"),
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for ((line, text), (expected, path)) in found.iter().zip(expected) {
        assert_eq!(*line, expected, "{path}: {text}");
        assert!(text.contains(path) && text.contains("there is no working directory"), "{text}");
    }
}

#[test]
fn a_mirror_is_another_place_and_keep_rules_are_some() {
    let text = "device = \"/m\"\n[[object]]\npaths = [\"/a\"]\nmirror = \"file:/m/\"\n[keep]\n";
    let found = mistakes(text);
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found[0].0 == 2 && found[0].1.contains("written twice"), "{found:#?}");
    assert!(found[1].0 == 5 && found[1].1.contains("has no rule"), "{found:#?}");
    let json = "device = \"/m\"\n[[object]]\npaths = [\"/a\"]\njson = true\n";
    let found = mistakes(json);
    assert!(found[0].1.ends_with("take it out"), "{found:?}");
}

/// What a run would refuse of a name is a mistake in the file.
#[test]
fn names_that_no_object_can_have_are_mistakes() {
    let long = "x".repeat(5000);
    let text = format!(
        "device = \"/m\"\n[[object]]\nname = \"{long}\"\npaths = [\"/a\"]\n\
         [[object]]\npaths = [\"/b/{long}\"]\n\
         [[object]]\nname = \"c\\u0007\"\npaths = [\"/c\"]\n\
         [[object]]\nname = \"d\"\nfrom-command = \"x\"\nstdin-name = \"../d\"\n\
         [[object]]\nname = \"e\"\npaths = [\"/e\"]\ntag = [\"{long}\"]\n"
    );
    let found = mistakes(&text);
    let expected =
        ["5000 bytes", "bytes, and it may have", "control characters", "component", "a tag has"];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for ((_, text), words) in found.iter().zip(expected) {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_truth_value_in_the_place_of_a_number_is_told_which_number_is_meant() {
    let object = "[[object]]\npaths = [\"/a\"]\n";
    let found = mistakes(&format!("device = \"/b\"\ntogether = true\n{object}"));
    assert_eq!(found, [(2, "'together' is `true`; write a number from 1 to 32".to_owned())]);
    let found = mistakes(&format!("device = \"/b\"\n{object}[keep]\ndaily = true\n"));
    assert!(found[0].1.contains("write a number from 1 on, or \"unlimited\""), "{found:?}");
}
