//! Tables of files before and after: what must be told, and what is work as usual.

use protocol::WeakeningKind as Kind;

use super::weakened;

/// The diff of a whole file.
pub(super) fn told(path: &str, old: &str, new: &str) -> Vec<(Kind, String)> {
    let common = old.split_inclusive('\n').zip(new.split_inclusive('\n')).take_while(|(a, b)| a == b).count();
    let signed = |text: &str, skip: usize, take: usize, sign: char| -> String {
        let lines = text.split_inclusive('\n').skip(skip).take(take);
        lines.map(|line| format!("{sign}{}\n", line.trim_end_matches('\n'))).collect()
    };
    let count = |text: &str| text.split_inclusive('\n').count();
    let text = format!(
        "diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1,{} +1,{} @@\n{}{}{}",
        count(old),
        count(new),
        signed(old, 0, common, ' '),
        signed(old, common, usize::MAX, '-'),
        signed(new, common, usize::MAX, '+')
    );
    weakened(&text).into_iter().map(|found| (found.kind, found.what)).collect()
}

const PY: &str = "def test_a():\n    x = total([1, 2])\n    assert x == 3\n    assert x > 0\n\n\ndef test_b():\n    assert total([]) == 0\n";
const RS: &str = "#[cfg(test)]\nmod tests {\n    #[test]\n    fn a() {\n        assert_eq!(total(), 3);\n    }\n\n    #[test]\n    fn b() {\n        assert!(x() > 1);\n    }\n}\n";
const JS: &str = "describe(\"till\", () => {\n  it(\"adds up\", () => {\n    const x = total([1, 2]);\n    expect(x).toBe(3);\n  });\n\n  it(\"is empty\", async () => {\n    expect(total([])).toBe(0);\n  });\n});\n";
const GO: &str =
    "package till\n\nfunc TestA(t *testing.T) {\n\tif total() != 3 {\n\t\tt.Errorf(\"bad\")\n\t}\n}\n";
const JAVA: &str = "class TillTest {\n  @Test\n  void addsUp() {\n    assertEquals(3, total());\n  }\n}\n";
const CS: &str = "public class TillTests {\n    [Fact]\n    public void AddsUp() {\n        Assert.Equal(3, Total());\n    }\n}\n";
const C: &str = "int main(void) {\n    assert(total() == 3);\n    assert(none() == 0);\n    return 0;\n}\n";
const BATS: &str = "@test \"adds up\" {\n  run total 1 2\n  [ \"$output\" = 3 ]\n}\n";

/// Path, text before, what is replaced by what, and the kind; nothing where it is work as usual.
type Case = (&'static str, &'static str, &'static str, &'static str, Option<Kind>);

#[test]
fn what_asks_for_less_is_told_and_work_as_usual_is_not() {
    const LESS: Option<Kind> = Some(Kind::AssertionRemoved);
    const SKIP: Option<Kind> = Some(Kind::TestSkipped);
    const GONE: Option<Kind> = Some(Kind::TestRemoved);
    const T: &str = "tests/test_a.py";
    const R: &str = "src/lib.rs";
    const J: &str = "src/till.test.ts";
    let cases: &[Case] = &[
        (T, PY, "    x = total([1, 2])\n    assert x == 3\n    assert x > 0\n", "    pass\n", LESS),
        (T, PY, "    x = total", "    return\n    x = total", LESS),
        (T, PY, "    assert x == 3\n", "    if False:\n        assert x == 3\n", LESS),
        (
            T,
            PY,
            "    assert x == 3\n",
            "    try:\n        assert x == 3\n    except Exception:\n        pass\n",
            LESS,
        ),
        (T, PY, "assert x == 3", "assert x is not None", LESS),
        (T, PY, "assert x == 3", "assert x >= 0", LESS),
        (T, PY, "assert x == 3", "assert x == 3 or True", LESS),
        (T, PY, "    assert x == 3\n", "", LESS),
        (T, PY, "def test_a", "@mark.skip\ndef test_a", SKIP),
        (T, PY, "def test_a", "def a", GONE),
        (T, PY, "== 0\n", "== 0\n\n\ndel test_a\n", GONE),
        (T, PY, "def test_a", "\"\"\"\ndef test_a", GONE),
        (T, PY, "assert x > 0", "assert x > 0\0", SKIP),
        (R, RS, "#[cfg(test)]", "#[cfg(all(test, any()))]", SKIP),
        (R, RS, "#[test]", "#[test] #[ignore]", SKIP),
        (R, RS, "#[test]", "#[test]\n    #[cfg_attr(all(), ignore)]", SKIP),
        (R, RS, "#[test]", "#[test]\n    #[should_panic]", SKIP),
        (R, RS, "assert_eq!(total(), 3);", "return;\n        assert_eq!(total(), 3);", LESS),
        (R, RS, "assert_eq!(total(), 3);", "", LESS),
        (R, RS, "assert_eq!(total(), 3);", "assert!(total().is_some());", LESS),
        (J, JS, "\"adds up\", ()", "\"adds up\", { skip: true }, ()", SKIP),
        (J, JS, "\"adds up\", ()", "\"adds up\", { todo: true }, ()", SKIP),
        (J, JS, "it(\"adds", "xit(\"adds", SKIP),
        (J, JS, "describe(", "describe.skip(", SKIP),
        (J, JS, "describe(", "process.exit(0);\ndescribe(", SKIP),
        (J, JS, "    const x", "    return;\n    const x", LESS),
        (J, JS, "expect(x).toBe(3)", "expect(x).toBeDefined()", LESS),
        ("a_test.go", GO, "\tif total", "\tt.Skip()\n\tif total", SKIP),
        ("a_test.go", GO, "package", "//go:build slow\n\npackage", SKIP),
        ("TillTest.java", JAVA, "  @Test", "  @org.junit.jupiter.api.Disabled\n  @Test", SKIP),
        ("TillTests.cs", CS, "[Fact]", "[Fact(Skip = \"flaky\")]", SKIP),
        ("TillTests.cs", CS, "[Fact]", "[Ignore]\n    [Fact]", SKIP),
        ("tests/till.c", C, "    assert(total() == 3);\n", "", LESS),
        ("tests/till.bats", BATS, "  run", "  skip\n  run", SKIP),
        (T, PY, "def test_a", "def test_that_it_adds_up", None),
        (T, PY, "assert x == 3", "assert x == 4", None),
        (T, PY, "total([1, 2])", "Till([1, 2]).total()", None),
        (
            T,
            PY,
            "    assert x == 3\n    assert x > 0\n",
            "    for n in (1, 2):\n        assert x == n\n",
            None,
        ),
        (T, PY, "== 0\n", "== 0\n\n\n@pytest.mark.skip\ndef test_new():\n    assert f()\n", None),
        (R, RS, "fn a()", "fn adds_up()", None),
        (R, RS, "total(), 3", "Till::new().total(), 3, \"it adds up\"", None),
        (R, RS, "mod tests {", "mod tests {\n    const TEXT: &str = \"#[ignore] /* \";", None),
        (J, JS, "\"adds up\"", "\"adds up all\"", None),
        (J, JS, "describe(\"till\"", "describe(\"the till\"", None),
        (J, JS, "    expect(x)", "    if (!x) return;\n    expect(x)", None),
        (J, JS, ".toBe(3)", ".toEqual(3)", None),
        ("a_test.go", GO, "\tif total", "\tt.Parallel()\n\tif total", None),
        ("TillTest.java", JAVA, "addsUp", "addsUpAll", None),
        ("tests/till.c", C, "total() == 3", "total(1, 2) == 3", None),
        ("tests/till.bats", BATS, "= 3", "= 4", None),
    ];
    let mut wrong = Vec::new();
    for (path, old, from, to, kind) in cases {
        let found = told(path, old, &old.replacen(from, to, 1));
        let right = match kind {
            Some(kind) => found.iter().any(|(one, _)| one == kind),
            None => found.is_empty(),
        };
        if !right {
            wrong.push(format!("{path}: {from:?} -> {to:?}: {kind:?}, not {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn what_runners_do_not_find_any_more_is_told() {
    for (old, new) in
        [("tests/test_a.py", "tests/a_old.py"), ("x_test.go", "x_tests.go"), ("foo.test.ts", "foo.ts")]
    {
        let text = format!("diff --git a/{old} b/{new}\nrename from {old}\nrename to {new}\n");
        assert_eq!(weakened(&text)[0].kind, Kind::TestFileDeleted, "{old}");
    }
    let binary = "diff --git a/tests/test_a.py b/tests/test_a.py\nBinary files a/x and b/x differ\n";
    assert_eq!(weakened(binary)[0].kind, Kind::NotLookedAt);
    for (path, old, new) in [
        ("Cargo.toml", "[lib]\n", "[lib]\ntest = false\n"),
        ("conftest.py", "import os\n", "import os\nitems.clear()\n"),
        (
            "pyproject.toml",
            "[tool.pytest.ini_options]\n",
            "[tool.pytest.ini_options]\ntestpaths = [\"unit\"]\n",
        ),
    ] {
        assert!(told(path, old, new).iter().any(|(kind, _)| *kind == Kind::TestsNarrowed), "{path}");
    }
}

#[test]
fn no_text_makes_it_panic() {
    for unit in
        ["it('',", "#[cfg(", "(/[", "def test_", "@B(", "if(", "`${", "/*", "fn a(){", "try{", "\"\"\"", "é("]
    {
        for path in ["a.test.ts", "tests/a.rs", "test_a.py", "ATest.java", "a_test.go", "a.bats", "tests/a.c"]
        {
            drop(told(path, "a\n", &unit.repeat(2000)));
        }
    }
}
