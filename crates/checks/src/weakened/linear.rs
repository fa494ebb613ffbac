//! The time that a diff takes grows with its length alone, whichever detector reads it. A square is no matter of taste here: the
//! diff is whatever somebody has a model write, and everybody else's sessions wait.

use std::time::Duration;

use super::{assertion, compare, config, elsewhere, narrowed, weakened, wiring};

/// How much longer the long diff is.
const TIMES: usize = 8;
/// Bytes of the short one.
const SHORT: usize = 2 * 1024;

/// Code that makes readers look back, or ahead, in the languages whose tests are taken apart.
const CODE: &[&str] = &[
    "def test_a(): assert x == 3",
    "class TestA(unittest.TestCase):",
    "@pytest.mark.parametrize('a', [(1, 1),",
    "    with contextlib.suppress(Exception):",
    "test_a = x",
    "del test_a",
    "shop.total = Mock(return_value=3)",
    "@patch('shop.total')",
    "from shop import total",
    "raise SystemExit",
    "    >>> total([1, 2])",
    "    3",
    "unittest.TestCase.assertEqual = print",
    "def _callTestMethod(self, method): return None",
    "import { total } from './shop'",
    "vi.mock('./shop', () => ({ total: 1 }))",
    "vi.spyOn(shop, 'total').mockReturnValue(3)",
    "jest.mock('./a')",
    "total.a(x)",
    "it.each([[1, 1]])('a', () => { expect(x).toBe(3);",
    "it('a', function ",
    "describe('a', function ",
    "describe.skip('a', () => {",
    "describe('a', () => {",
    "it(\"a\", () => {",
    "process.exit(0)",
    "exit",
    "if (x) { assert(x); if (y) {",
    "else ",
    "for x ",
    "try { } catch (e) { } return; if false {",
    "#[test] fn a() { assert_eq!(1, 2); #[cfg(any())]",
    "#![ignore]",
    "#[cfg(test)] mod tests {",
    "#[cfg(test)] mod test_a;",
    "/// ```",
    "proptest! { #[test]",
    "func TestMain(m *testing.M) {",
    "func TestA(t *testing.T) {",
    "//go:build never",
    "Exit",
    "@Test @ValueSource(ints = {1, 2}) void a() { assertEquals(3, x());",
    "@Disabled class A {",
    "[Fact] public void A() { Assert.Equal(3, x()); }",
    "it 'a' do",
    "@test \"a\" {",
    "((((((((((",
    "{[({[({[(",
    "}])}])}])",
    "\"\"\" \\ ' \" ` /* // #",
    "if os.environ.get('CI'):",
    "pytest.raises(ValueError, match='bad')",
    "max_examples=1",
];

/// Files by what reads them, and what that looks for.
type Table = (&'static [&'static str], Vec<&'static str>);

/// Where tests are taken apart.
fn code() -> Vec<Table> {
    let loose = compare::WORDS_OF_LOOSE.iter().map(|word| std::str::from_utf8(word).unwrap());
    vec![
        (&["tests/test_a.py"], CODE.iter().chain(&assertion::NAMES).copied().chain(loose).collect()),
        (
            &["src/a.test.ts", "src/lib.rs", "a_test.go", "ATest.java", "A.Tests/A.cs", "spec/a_spec.rb"],
            CODE.to_vec(),
        ),
    ]
}

/// Where their code is of a kind with that of others.
fn more_code() -> Vec<Table> {
    vec![
        (
            &["shop.py", "a.tsx", "tests/a.cpp", "tests/ATest.php", "Tests/A.swift", "test/a.bats"],
            CODE.to_vec(),
        ),
        (&["src/a.py", "src/a.ts"], config::SILENCERS.to_vec()),
    ]
}

/// Where lines are read one by one.
fn settings() -> Vec<Table> {
    let all = |lists: &[&[&'static str]]| lists.iter().flat_map(|list| list.iter().copied()).collect();
    vec![
        (&["test/a_test.exs", "tests/run.sh"], all(&[&elsewhere::ASSERTIONS, &elsewhere::SKIPS])),
        (&["x/Cargo.toml"], all(&[&narrowed::CARGO, &["[[test]]", "members = [\"a\"]", "[workspace]"]])),
        (&["x/conftest.py"], all(&[&narrowed::HOOKS, &["def pytest_pyfunc_call(x):", "    return True"]])),
        (
            &["jest.config.js", "pytest.ini", "x/pyproject.toml", "package.json"],
            all(&[&narrowed::SETTINGS, &narrowed::IN_CODE, config::FLOORS, config::CEILINGS, config::OFF]),
        ),
        (
            &["Makefile", ".github/workflows/ci.yml", "ci/test.sh"],
            all(&[config::IGNORED, &wiring::PROGRAMS, &wiring::WHEN, &wiring::STRICT, &["SHELL = true"]]),
        ),
        (
            &["CMakeLists.txt", "A.csproj", "setup.py", "Rakefile", ".npmrc", ".cargo/config.toml"],
            all(&[&wiring::PROGRAMS, &wiring::STRICT, &["add_test(a)", "test = 1", "script-shell = a"]]),
        ),
        (
            &["tests/cases.json", "tests/golden.txt", "tests/a.csv", "a.snap", ".env", ".gitattributes"],
            vec!["{\"a\": [1, 2]},", "a,b", "exports[`a`] = `1`;", "PYTEST_ADDOPTS=-k a", "tests/** binary"],
        ),
    ]
}

/// How the lines of a diff change.
const SHAPES: [fn(&str, usize) -> String; 7] = [
    |piece, count| lines('-', piece, count) + &lines('+', piece, count),
    |piece, count| lines('-', piece, count),
    |piece, count| lines('+', piece, count),
    |piece, count| lines(' ', "other", count) + &lines('+', piece, count),
    // Each line is another one.
    |piece, count| numbered('-', piece, count) + &numbered('+', piece, count + 1),
    // One line without an end.
    |piece, count| format!("-{}\n+{}\n", "x ".repeat(count), format!("{piece} ").repeat(count)),
    |piece, count| {
        lines(' ', "def test_a(): assert total(x) == 3", count / 2)
            + &numbered('-', piece, count / 2)
            + &numbered('+', &format!("{piece} 1"), count / 2)
    },
];

fn lines(sign: char, piece: &str, count: usize) -> String {
    format!("{sign}{piece}\n").repeat(count)
}

fn numbered(sign: char, piece: &str, count: usize) -> String {
    // A name that ends with a number is another name.
    (0..count)
        .map(|n| format!("{sign}{}\n", piece.replace("total", &format!("total{n}")) + &n.to_string()))
        .collect()
}

fn diff(path: &str, piece: &str, shape: fn(&str, usize) -> String, size: usize) -> String {
    let changed = shape(piece, size / (piece.len() + 2));
    let of = |sign: char| changed.lines().filter(|line| !line.starts_with(sign)).count();
    format!(
        "diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1,{} +1,{} @@\n{changed}",
        of('+'),
        of('-')
    )
}

/// What the processor has spent on this thread, which others that run beside it do not change.
fn spent() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(told.split(' ').next().unwrap().parse().unwrap())
}

/// Whether the long text takes far more than its share; a square would take [`TIMES`] times that.
fn out_of_proportion(text: impl Fn(usize) -> String, short: usize, read: impl Fn(&str)) -> bool {
    let (tick, soon) = (Duration::from_millis(4), Duration::from_millis(80));
    let work = |text: &str| {
        let before = spent();
        read(text);
        spent().saturating_sub(before)
    };
    let long = text(short * TIMES);
    // What is slow by chance is not so three times.
    (0..3).all(|_| {
        let took = work(&long);
        took > soon && took > work(&text(short)).max(tick) * u32::try_from(4 * TIMES).unwrap()
    })
}

fn slow(tables: &[Table], shapes: &[usize], short: usize) -> Vec<String> {
    let read = |text: &str| {
        std::hint::black_box(weakened(text));
        std::hint::black_box(super::adapted(text, &["a".to_owned()]));
    };
    let mut slow = Vec::new();
    for (paths, words) in tables {
        for (path, word) in paths.iter().flat_map(|path| words.iter().map(move |word| (path, word))) {
            for shape in shapes {
                let of = |size| diff(path, word, SHAPES[*shape], size);
                if out_of_proportion(of, short, read) {
                    slow.push(format!("{path}: {word} (shape {shape})"));
                }
            }
        }
    }
    slow
}

#[test]
fn no_detector_takes_a_square_of_the_lines() {
    let square = |text: &str| {
        let count =
            text.lines().map(|line| text.lines().filter(|other| *other == line).count()).sum::<usize>();
        std::hint::black_box(count);
    };
    let of = |size| diff("a.py", "x", SHAPES[0], size);
    assert!(out_of_proportion(of, SHORT, square), "this would see nothing");
    assert_eq!(slow(&settings(), &[1, 3], SHORT), Vec::<String>::new());
}

#[test]
fn no_reader_of_tests_takes_a_square_of_the_lines() {
    assert_eq!(slow(&code(), &[5, 6], SHORT), Vec::<String>::new());
}

#[test]
#[ignore = "takes minutes"]
fn no_detector_takes_a_square_of_many_lines() {
    for tables in [settings(), code(), more_code()] {
        assert_eq!(slow(&tables, &[0, 1, 2, 3, 4, 5, 6], 8 * SHORT), Vec::<String>::new());
    }
}
