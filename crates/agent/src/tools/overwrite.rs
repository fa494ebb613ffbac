//! What becomes of a whole text that a model writes over a file. Code that the text leaves out does not go in silence: it
//! stays, or the task asks for that, or the model was told by name what goes and says the same again.

use super::guard::{Loss, is_in, loss, only_leaves_out, spared, tell_the_same};
use super::keys::Format;
use super::merge::{merged, without};
use super::removal;

/// Who writes a file, and what was said of it before.
#[derive(Debug, Clone, Copy)]
pub struct Writer<'a> {
    /// What the turn is about.
    pub task: &'a str,
    /// The file.
    pub path: &'a str,
    /// What other files have since the turn began, or are about to have: code may go there.
    pub elsewhere: &'a [String],
    /// Whether a model that repeats itself means it. Small ones do it anyway.
    pub means_it: bool,
    /// Whether it sent this very text before, and was told what it leaves out.
    pub same_text: bool,
    /// Whether it was told before that just this is left out, of whatever text.
    pub same_loss: bool,
}

/// What is to be done with a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Overwrite {
    /// It is written.
    Write,
    /// It is written, and something goes with it.
    Remove {
        /// What goes, in words.
        lost: String,
        /// Whether the task asks for it; else it is to come back when the checks fail.
        asked: bool,
    },
    /// It is a part of the file and takes its place in there; the rest stays.
    Merge {
        /// The whole file.
        text: String,
        /// What stayed, in words.
        kept: String,
    },
    /// It is not written.
    Refuse {
        /// What would be lost, in words.
        lost: String,
        /// What the model reads.
        why: String,
    },
}

/// Decides on a text that is to take the place of another.
pub fn overwrite(old: &str, new: &str, writer: Writer<'_>) -> Overwrite {
    let format = Format::of(writer.path);
    let Some(all) = loss(old, new, format) else { return Overwrite::Write };
    let hollow = matches!(all, Loss::Hollow(..));
    let goes = |names: &[&str], lines: &[&str]| {
        !names.is_empty() && removal::asks_for(writer.task, names, writer.path)
            || hollow && removal::empties(writer.task, names)
            // Nobody calls it what it is called.
            || names == ["__main__"] && removal::asks_for(writer.task, &["main"], writer.path)
            || writer.elsewhere.iter().any(|text| is_in(text, names.first().copied(), lines))
    };
    let (asked, rest) = spared(old, new, &all, format, goes);
    let Some(rest) = rest else {
        return Overwrite::Remove { lost: all.named(), asked: true };
    };
    let shorter =
        matches!(rest, Loss::Lines(..) | Loss::End(..)) && removal::makes_shorter(writer.task, writer.path);
    let anew =
        !matches!(rest, Loss::Elided(_) | Loss::Hollow(..)) && removal::writes_anew(writer.task, writer.path);
    if anew || shorter && writer.means_it {
        return Overwrite::Remove { lost: all.named(), asked: true };
    }
    if writer.means_it {
        let (lost, why) =
            (rest.named(), format!("{} If they should go, send the same call again.", rest.why()));
        return if writer.same_text { Overwrite::Write } else { Overwrite::Refuse { lost, why } };
    }
    // What is to be elsewhere and is not there yet is lost when the other file is forgotten.
    let moving = match &rest {
        Loss::Definitions(names) => names.iter().any(|name| removal::moves(writer.task, name)),
        Loss::Elided(_) | Loss::Hollow(..) | Loss::End(..) | Loss::Lines(..) | Loss::Keys(_) => false,
    };
    if moving {
        let lost = rest.named();
        if writer.same_loss {
            return Overwrite::Remove { lost, asked: false };
        }
        let why = format!(
            "{} What goes to another file is written there first, or in the same answer.",
            rest.why()
        );
        return Overwrite::Refuse { lost, why };
    }
    // Who names what is to go does not mean the rest.
    let wanted = asked.is_empty()
        && removal::leaves_open(writer.task, writer.path)
        && !matches!(all, Loss::Elided(_) | Loss::Hollow(..))
        || shorter;
    let only = only_leaves_out(old, new, &all, format);
    // A part that was changed is not the same as a file without the rest, however often it is sent.
    if only && (wanted || writer.same_loss) || wanted && writer.same_text {
        return Overwrite::Remove { lost: all.named(), asked: false };
    }
    let base = without(old, &asked);
    let lost = rest.named();
    match merged(&base, new).filter(|_| format == Format::Code) {
        Some(text) if tell_the_same(old, &text) => {
            let why = format!(
                "The file stays as it was: all that your text changes is that it leaves out {lost}. Only if that should go, write the same again; else write what must change."
            );
            Overwrite::Refuse { lost, why }
        }
        Some(text) => Overwrite::Merge { text, kept: lost },
        None => {
            let again = match (only || wanted, &all) {
                (_, Loss::Elided(_) | Loss::Hollow(..)) => "",
                (true, _) => " Only if that should go, write the same again.",
                (false, _) => {
                    " Only if that should go: write the file with it first, and then without it and with nothing else changed."
                }
            };
            Overwrite::Refuse { lost, why: format!("{}{again}", all.why()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str =
        "import os\n\n\ndef add(a, b):\n    return a - b\n\n\ndef sub(a, b):\n    return a - b\n";
    const WITHOUT: &str = "import os\n\n\ndef add(a, b):\n    return a - b\n";
    const PART: &str = "def add(a, b):\n    return a + b\n";

    /// A small model that was told nothing yet.
    fn small(task: &str) -> Writer<'_> {
        Writer { task, path: "calc.py", elsewhere: &[], means_it: false, same_text: false, same_loss: false }
    }

    fn removed(asked: bool) -> Overwrite {
        Overwrite::Remove { lost: "`sub`".into(), asked }
    }

    #[test]
    fn what_the_task_asks_to_remove_goes_in_every_mode() {
        for means_it in [true, false] {
            let writer = Writer { means_it, ..small("Remove the function sub from calc.py") };
            assert_eq!(overwrite(OLD, WITHOUT, writer), removed(true));
        }
        let three = format!("{OLD}\n\ndef mul(a, b):\n    return a * b\n");
        let task = "Remove the function sub from calc.py";
        let merged = overwrite(&three, PART, small(task));
        let Overwrite::Merge { text, kept } = merged else { panic!("{merged:?}") };
        assert!(text.contains("a + b") && text.contains("def mul") && !text.contains("def sub"), "{text}");
        assert_eq!(kept, "`mul`", "it is not asked for");
        let means_it = Writer { means_it: true, ..small(task) };
        assert!(matches!(overwrite(&three, PART, means_it), Overwrite::Refuse { .. }));
    }

    #[test]
    fn a_small_model_removes_by_leaving_out_nothing_but_that_twice() {
        let writer = small("Make calc.py shorter");
        let Overwrite::Refuse { why, .. } = overwrite(OLD, WITHOUT, writer) else { panic!() };
        insta::assert_snapshot!(why, @"The file stays as it was: all that your text changes is that it leaves out `sub`. Only if that should go, write the same again; else write what must change.");
        let told = Writer { same_loss: true, ..writer };
        assert_eq!(overwrite(OLD, WITHOUT, told), removed(false));
        assert_eq!(overwrite(OLD, WITHOUT, small("Remove the dead code")), removed(false), "it is wanted");
    }

    #[test]
    fn a_part_with_a_change_in_it_stays_a_part_however_often_it_comes() {
        for told in [false, true] {
            let writer = Writer { same_text: told, same_loss: told, ..small("Fix add") };
            let Overwrite::Merge { text, kept } = overwrite(OLD, PART, writer) else { panic!() };
            assert!(text.contains("a + b") && text.contains("def sub"), "{text}");
            assert_eq!(kept, "`sub`");
        }
        // Once it has its place, the same text only leaves out.
        let now = OLD.replacen("a - b", "a + b", 1);
        let told = Writer { same_text: true, same_loss: true, ..small("Fix add") };
        assert_eq!(overwrite(&now, PART, told), removed(false));
        assert!(matches!(overwrite(&now, PART, small("Fix add")), Overwrite::Refuse { .. }));
        let elided = format!("# rest of the code\n{PART}");
        let insisting = Writer { same_text: true, same_loss: true, ..small("Remove sub") };
        assert!(!matches!(overwrite(OLD, &elided, insisting), Overwrite::Remove { .. } | Overwrite::Write));
    }

    #[test]
    fn members_that_cannot_be_merged_can_be_removed_in_two_steps() {
        let class =
            "class A:\n    def one(self):\n        return 1\n\n    def two(self):\n        return 2\n";
        let changed = "class A:\n    def one(self):\n        return 3\n";
        let told = Writer { same_text: true, same_loss: true, ..small("Return 3 from one") };
        let Overwrite::Refuse { why, .. } = overwrite(class, changed, told) else { panic!() };
        assert!(why.contains("leaves out `two`") && why.ends_with("with nothing else changed."), "{why}");
        let after = class.replace("return 1", "return 3");
        assert_eq!(
            overwrite(&after, changed, told),
            Overwrite::Remove { lost: "`two`".into(), asked: false }
        );
    }

    #[test]
    fn what_the_task_asks_to_empty_is_emptied_in_every_mode() {
        let old = "def add(a, b):\n    check(a)\n    check(b)\n    return a + b\n\n\nif __name__ == \"__main__\":\n    add(1, 2)\n";
        let emptied = old.replace("    check(a)\n    check(b)\n    return a + b\n", "    pass\n");
        let no_main = &old[..old.find("\n\nif __name__").unwrap()];
        for means_it in [true, false] {
            for task in [
                "Empty the function add",
                "Make add do nothing",
                "Stub out all functions",
                "Make add a no-op.",
            ] {
                let decided = overwrite(old, &emptied, Writer { means_it, ..small(task) });
                assert!(matches!(decided, Overwrite::Remove { asked: true, .. }), "{task}: {decided:?}");
            }
            for task in ["Fix add", "Empty the cart in sub", "Say in a comment what add does"] {
                let decided = overwrite(old, &emptied, Writer { means_it, ..small(task) });
                assert!(matches!(decided, Overwrite::Refuse { .. }), "{task}: {decided:?}");
            }
            let decided = overwrite(old, no_main, Writer { means_it, ..small("Remove the main block") });
            assert!(matches!(decided, Overwrite::Remove { asked: true, .. }), "{decided:?}");
        }
    }

    #[test]
    fn who_means_what_it_repeats_sends_it_again() {
        let writer = Writer { means_it: true, ..small("Fix add") };
        let Overwrite::Refuse { why, .. } = overwrite(OLD, PART, writer) else { panic!() };
        assert!(why.ends_with("If they should go, send the same call again."), "{why}");
        assert_eq!(overwrite(OLD, PART, Writer { same_text: true, ..writer }), Overwrite::Write);
        assert_eq!(overwrite(OLD, OLD, writer), Overwrite::Write);
    }
}
