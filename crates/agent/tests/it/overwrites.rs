//! Whole texts over files of many languages: what is left out in silence is noticed, and ordinary rewrites are written.

use agent::tools::{Overwrite, Writer, overwrite};

/// A model that means what it repeats, and was told nothing yet.
fn write(path: &str, old: &str, new: &str) -> Overwrite {
    let task = "Make addition commute";
    overwrite(
        old,
        new,
        Writer { task, path, elsewhere: &[], means_it: true, same_text: false, same_loss: false },
    )
}

const C: &str = "#include <stdio.h>\n\nint add(int a, int b)\n{\n\treturn a + b;\n}\n\nint sub(int a, int b)\n{\n\tint r = a - b;\n\treturn r;\n}\n\nstruct node *find(struct node *n)\n{\n\twhile (n)\n\t\tn = n->next;\n\treturn n;\n}\n";
const CPP: &str = "#include <string>\n\nclass Box {\n public:\n  Box(int x) : x_(x) {}\n  int get() const { return x_; }\n private:\n  int x_ = 0;\n};\n\nint add(int a, int b) { return a + b; }\n\ntemplate <typename T>\nT sub(T a, T b) {\n  return a - b;\n}\n";
const JAVA: &str = "package m;\n\npublic class Calc {\n    private final int x;\n\n    public Calc(int x) {\n        this.x = x;\n    }\n\n    public int add(int a, int b) {\n        return a + b;\n    }\n\n    static <T> List<T> sub(List<T> a) {\n        return a;\n    }\n}\n";
const SH: &str = "#!/bin/sh\nset -e\n\nadd() {\n  echo $(($1 + $2))\n}\n\nsub() {\n  echo $(($1 - $2))\n}\n\nfunction mul {\n  echo $(($1 * $2))\n}\n\nadd 1 2\n";
const TS: &str = "export class A {\n  #n = 1;\n  add(a: number, b: number): number {\n    return a + b;\n  }\n  async sub(a: number, b: number) {\n    return a - b;\n  }\n  static of(a: number) {\n    return new A();\n  }\n  get x() { return 1; }\n  set x(v) {\n    this.y = v;\n  }\n  #hidden(a: number) {\n    return a;\n  }\n}\n";
const PACKAGE: &str = "{\n  \"name\": \"x\",\n  \"version\": \"1.0.0\",\n  \"scripts\": {\n    \"build\": \"tsc\",\n    \"test\": \"jest\"\n  },\n  \"dependencies\": {\n    \"a\": \"^1.0.0\",\n    \"b\": \"^2.0.0\"\n  }\n}\n";
const TOML: &str = "[package]\nname = \"x\"\nversion = \"1.0.0\"\n\n[dependencies]\na = \"1\"\n\n[dev-dependencies]\nb = \"2\"\n";
const INI: &str = "[main]\na = 1\n\n[other]\nb = 2\n";
const MAKE: &str = "CC = gcc\n.PHONY: all a clean\nall: a\n\techo all\n\na:\n\techo a\n\nclean:\n\trm -f x\n\ninstall: all\n\tcp x /usr/bin\n";

fn jobs(count: usize) -> String {
    let job = |n| format!("  job{n}:\n    runs-on: ubuntu\n    steps:\n      - run: make {n}\n");
    format!("name: ci\non: [push]\njobs:\n{}", (0..count).map(job).collect::<String>())
}

fn numbered(line: &str, count: usize) -> String {
    (0..count).map(|n| format!("{} {n}\n", line)).collect()
}

/// Files, and texts that leave something of them out beside a change.
fn losses() -> Vec<(&'static str, String, String, &'static str)> {
    let commute = |text: &str| text.replace("a + b", "b + a");
    let without = |text: &str, from: &str, to: &str| {
        let begin = text.find(from).unwrap_or_else(|| panic!("{from} is not in {text}"));
        let end =
            begin + text[begin..].find(to).unwrap_or_else(|| panic!("{to} is not in {text}")) + to.len();
        format!("{}{}", &text[..begin], &text[end..])
    };
    let cut = |text: &str, at: &str| text.split(at).next().unwrap_or_default().to_owned();
    let values = |count: usize| {
        let values: Vec<String> = (0..count).map(|n| format!("\"k{n}\": {n}")).collect();
        format!("{{{}}}", values.join(", "))
    };
    let list =
        |count: usize| format!("[{}]", (0..count).map(|n| n.to_string()).collect::<Vec<_>>().join(", "));
    vec![
        ("m.c", C.into(), commute(&without(C, "int sub", "}\n")), "`sub`"),
        ("m.c", C.into(), commute(&without(C, "struct node", "}\n")), "`find`"),
        (
            "m.c",
            C.replace(")\n{", ") {"),
            commute(&cut(C, "int sub").replace(")\n{", ") {")),
            "`sub`, `find`",
        ),
        ("m.c", C.replace("int sub", "int\nsub"), commute(&cut(C, "int sub")), "`sub`, `find`"),
        ("m.cpp", CPP.into(), commute(&without(CPP, "template", "}\n")), "`sub`"),
        ("m.cpp", CPP.into(), commute(&without(CPP, "  Box(", "\n")), "`Box.Box`"),
        ("Calc.java", JAVA.into(), commute(&without(JAVA, "    public Calc", "    }\n")), "`Calc.Calc`"),
        ("Calc.java", JAVA.into(), commute(&without(JAVA, "    static <T>", "    }\n")), "`sub`"),
        (
            "m.sh",
            SH.into(),
            SH.replace("$1 + $2", "$2 + $1").replace("sub() {\n  echo $(($1 - $2))\n}\n", ""),
            "`sub`",
        ),
        ("m.sh", SH.into(), SH.replace("function mul {\n  echo $(($1 * $2))\n}\n", "#"), "`mul`"),
        ("m.ts", TS.into(), commute(&without(TS, "  async sub", "  }\n")), "`sub`"),
        ("m.ts", TS.into(), commute(&without(TS, "  static of", "  }\n")), "`of`"),
        ("m.ts", TS.into(), commute(&without(TS, "  get x", "\n")), "`get x`"),
        ("m.js", TS.into(), commute(&without(TS, "  set x", "  }\n")), "`set x`"),
        ("m.js", TS.into(), commute(&without(TS, "  #hidden", "  }\n")), "`hidden`"),
        (
            "package.json",
            PACKAGE.into(),
            "{\"name\": \"x\", \"version\": \"1.0.1\"}".into(),
            "`dependencies`, `scripts`",
        ),
        ("data.json", values(50), "{\"k0\": 1}".into(), "`k1`"),
        ("data.json", values(3), "{}".into(), "`k0`, `k1`, `k2`"),
        ("list.json", list(50), list(3), "47 lines"),
        ("ci.yml", jobs(8), cut(&jobs(8), "  job1").replace("make 0", "make all"), "`jobs.job1`"),
        ("ci.yml", jobs(3), jobs(2).replace("make 0", "make all"), "`jobs.job2`"),
        ("Cargo.toml", TOML.into(), cut(TOML, "[dev").replace("1.0.0", "1.0.1"), "`dev-dependencies`"),
        ("setup.cfg", INI.into(), "[main]\na = 2\n".into(), "`other`"),
        (".env", "A=1\nB=2\nC=3\n".into(), "A=2\n".into(), "`B`, `C`"),
        (
            "Makefile",
            MAKE.into(),
            cut(MAKE, "clean:\n").replace("echo a\n", "echo aa\n"),
            "`clean`, `install`",
        ),
        ("notes.md", numbered("* item", 60), numbered("* item", 2), "58 lines"),
        ("notes.txt", numbered("\"line\"", 60), "all\n".into(), "60 lines"),
        ("data.csv", numbered("a,b,", 60), numbered("a,b,", 9), "51 lines"),
        ("nginx.conf", numbered("listen", 60), numbered("listen", 9), "51 lines"),
        ("same.tf", "rule = same\n".repeat(40), "rule = same\n".repeat(4), "36 lines"),
    ]
}

#[test]
fn what_is_left_out_in_silence_is_noticed() {
    for (path, old, new, expected) in losses() {
        let decided = write(path, &old, &new);
        let Overwrite::Refuse { lost, why } = decided else {
            panic!("{path} {expected}: {decided:?}\n{new}")
        };
        assert!(lost.contains(expected), "{path}: {lost} is not {expected}");
        assert!(why.ends_with("send the same call again."), "{why}");
        // Whoever means it writes the same again.
        let insisting =
            Writer { task: "", path, elsewhere: &[], means_it: true, same_text: true, same_loss: true };
        assert_eq!(overwrite(&old, &new, insisting), Overwrite::Write, "{path}");
        // A small one has to leave out nothing else, and never loses it at once.
        let small = Writer {
            task: "Make addition commute",
            path,
            elsewhere: &[],
            means_it: false,
            same_text: false,
            same_loss: false,
        };
        let decided = overwrite(&old, &new, small);
        assert!(!matches!(decided, Overwrite::Write | Overwrite::Remove { .. }), "{path}: {decided:?}");
    }
}

#[test]
fn ordinary_rewrites_are_written() {
    for (path, old, _, _) in losses() {
        assert_eq!(write(path, &old, &old), Overwrite::Write, "{path}: the same");
    }
    let package = PACKAGE;
    let compact: String = package.split_whitespace().collect();
    for (path, old, new) in [
        ("m.c", C.to_owned(), C.replace("sub", "minus")),
        ("m.c", C.to_owned(), C.replace(")\n{", ") {")),
        ("m.c", C.to_owned(), C.replace("\tint r = a - b;\n\treturn r;\n", "\treturn a - b;\n")),
        ("m.c", C.replace("\tint r", "\tstruct stat st;\n\tint r"), C.to_owned()),
        ("m.c", C.to_owned(), C.replace("int sub(int a, int b)", "static long sub(long a, long b)")),
        (
            "m.cpp",
            CPP.to_owned(),
            CPP.replace("template <typename T>\nT sub(T a, T b)", "int sub(int a, int b)"),
        ),
        ("Calc.java", JAVA.to_owned(), JAVA.replace("Calc", "Sum")),
        (
            "Calc.java",
            JAVA.to_owned(),
            JAVA.replace("int x", "long x").replace("{\n", "{\n        check();\n"),
        ),
        ("m.sh", SH.to_owned(), SH.replace("function mul {", "mul() {").replace("add 1 2", "add 2 1")),
        ("m.ts", TS.to_owned(), TS.replace("async sub", "sub").replace("#hidden", "private hidden")),
        ("package.json", package.to_owned(), compact),
        ("package.json", package.to_owned(), package.replace("\"a\": \"^1.0.0\"", "\"c\": \"^3.0.0\"")),
        ("package.json", package.to_owned(), package.replace("    \"a\": \"^1.0.0\",\n", "")),
        ("package.json", package.to_owned(), package.replace("\"scripts\"", "\"tasks\"")),
        ("ci.yml", jobs(3), jobs(5)),
        ("ci.yml", jobs(3), jobs(3).replace("job1", "lint").replace("ubuntu", "debian")),
        ("ci.yml", jobs(3), format!("# Why.\n{}", jobs(3).replace("[push]", "\n  push: {}"))),
        ("Cargo.toml", TOML.to_owned(), TOML.replace("a = \"1\"\n", "")),
        ("Cargo.toml", TOML.to_owned(), TOML.replace("[dev-dependencies]", "[build-dependencies]")),
        ("setup.cfg", INI.to_owned(), "[other]\nb = 3\n\n[main]\na = 1\n".to_owned()),
        ("Makefile", MAKE.to_owned(), MAKE.replace("clean:", "distclean:").replace("CC = gcc\n", "")),
        ("README.md", "class of things\ntype the following\n".to_owned(), "Words.\n".to_owned()),
        ("README.md", numbered("word", 30), numbered("other", 20)),
        ("README.md", numbered("word", 30), numbered("word", 20)),
        ("README.md", "# A\n".to_owned(), "# A\n\n## Existing code\n".to_owned()),
        ("notes.txt", numbered("x", 7), String::new()),
        ("data.csv", numbered("a,b", 60), numbered("a,c", 40)),
    ] {
        assert_eq!(write(path, &old, &new), Overwrite::Write, "{path}:\n{new}");
    }
}

#[test]
fn what_the_task_is_about_may_go() {
    let asked = |task: &str, path: &str, old: &str, new: &str| {
        let writer =
            Writer { task, path, elsewhere: &[], means_it: true, same_text: false, same_loss: false };
        matches!(overwrite(old, new, writer), Overwrite::Remove { asked: true, .. })
    };
    assert!(asked("Remove the job job2 from CI", "ci.yml", &jobs(3), &jobs(2)));
    assert!(asked(
        "Delete the target clean and the target install",
        "Makefile",
        MAKE,
        MAKE.split("clean:\n").next().unwrap()
    ));
    assert!(asked(
        "Remove the key dependencies",
        "package.json",
        PACKAGE,
        "{\"name\": \"x\", \"version\": \"1.0.0\", \"scripts\": {\"build\": \"tsc\", \"test\": \"jest\"}}"
    ));
    assert!(asked("Make notes.txt shorter", "notes.txt", &numbered("x", 60), "x\n"));
    assert!(!asked("Remove the comma", "notes.txt", &numbered("x", 60), "x\n"));
    // A small model leaves out nothing else, twice.
    let small = Writer {
        task: "Tidy",
        path: "ci.yml",
        elsewhere: &[],
        means_it: false,
        same_text: false,
        same_loss: false,
    };
    assert!(matches!(overwrite(&jobs(3), &jobs(2), small), Overwrite::Refuse { .. }));
    let told = Writer { same_text: true, same_loss: true, ..small };
    assert!(matches!(overwrite(&jobs(3), &jobs(2), told), Overwrite::Remove { asked: false, .. }));
}
