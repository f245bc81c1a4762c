//! Objects that are restored at once into one place, and have the same paths.

use crate::compare::same_by_rsync;
use crate::support::{Lab, Run, below, noise};

fn run(lab: &Lab, line: &str) -> Run {
    lab.run(line.split_whitespace())
}

/// Two objects of one tree, of different states, and a third beside them.
fn lab() -> Lab {
    let lab = Lab::new();
    // So many files that the index is asked for what comes behind them.
    for n in 0..1500 {
        lab.file(&format!("top/a/{}/{n}", n % 5), noise(n, 20));
    }
    for (name, state) in [("one", 1), ("two", 2)] {
        lab.file("top/tree/f", noise(state, 300_000));
        lab.file("top/tree/g", noise(10 + state, 1000));
        let path = if name == "one" { "top" } else { "top/tree" };
        lab.backed_up([path, "--to", name, "--name", name]);
    }
    lab.file("top/zother/f", noise(30, 1000));
    lab.backed_up(["top/zother", "--to", "three", "--name", "three"]);
    lab
}

#[test]
fn one_path_of_two_objects_is_refused_before_anything_is_written() {
    let lab = lab();
    let first = format!("{}/top/tree/f", lab.path("").display()).replace("//", "/");
    let words = ["'one'", "'two'", &first, "--into", "one after the other"];
    for order in ["one --and two --and three", "three --and two --and one"] {
        for more in ["", "--dry-run", "--list", "--dry-run --list"] {
            run(&lab, &format!("restore {order} --into out {more}")).refused(&words);
        }
        run(&lab, &format!("restore {order} --in-place --overwrite always")).refused(&words);
    }
    assert!(!lab.path("out").exists());
    run(&lab, "restore one --and two --include g --into out").refused(&["/top/tree/g", "'one'"]);
}

#[test]
fn directories_in_common_and_paths_that_are_left_out_are_no_harm() {
    let lab = lab();
    run(&lab, "restore two --and three --into out").ok();
    same_by_rsync(&lab.path("top/zother"), &below(&lab.path("out"), &lab.path("top/zother")));
    same_by_rsync(&lab.path("top/tree"), &below(&lab.path("out"), &lab.path("top/tree")));
    lab.sh("rm -r out");
    run(
        &lab,
        "restore one --and two --and three --exclude **/tree/f --exclude **/tree/g --into out",
    )
    .ok();
    same_by_rsync(&lab.path("top/a"), &below(&lab.path("out"), &lab.path("top/a")));
}

#[test]
fn a_file_is_not_restored_over_a_directory_of_another_object_nor_where_stripping_leads_both() {
    let lab = Lab::new();
    lab.file("x/p/f", "a file");
    lab.backed_up(["x", "--to", "m", "--name", "one"]);
    lab.sh("rm -r x; mkdir x; echo >x/p");
    lab.backed_up(["x", "--to", "n", "--name", "two"]);
    run(&lab, "restore two --and one --into out").refused(&["/x/p", "'one'", "'two'"]);
    // Apart where they were, together without their first components.
    lab.file("left/d/f", "left");
    lab.file("right/d/f", "right");
    lab.file("right/e/g", "right");
    lab.backed_up(["left", "--to", "m", "--name", "left"]);
    lab.backed_up(["right", "--to", "n", "--name", "right"]);
    let above = lab.path("").components().count() - 1;
    let into =
        |strip: usize| run(&lab, &format!("restore left --and right --strip {strip} --into out"));
    into(above + 1).refused(&["--strip", "right/d/f"]);
    assert!(!lab.path("out").exists());
    into(above).ok();
    assert_eq!(lab.sh("cat out/left/d/f out/right/d/f out/right/e/g"), "leftrightright");
}
