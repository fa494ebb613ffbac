//! Ways to green that leave each assertion as it is: tests that are taken away after they were defined, stand-ins for what is
//! tested, expectations that became what the code returns; and what does the same for a good reason.

use super::*;

fn diff(path: &str, lines: &str) -> String {
    let count = |skip: char| lines.lines().filter(|line| !line.starts_with(skip)).count();
    format!(
        "diff --git a/{path} b/{path}\nindex 1..2 100644\n--- a/{path}\n+++ b/{path}\n@@ -1,{} +1,{} @@\n{lines}\n",
        count('+'),
        count('-')
    )
}

fn added(path: &str, line: &str) -> String {
    format!(
        "diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,1 @@\n+{line}\n"
    )
}

const PYTHON: &str = " import unittest
 import shop
 from till import pay

 class TestShop(unittest.TestCase):
     def test_old(self):
         self.assertEqual(shop.total([1, 2]), 3)

     def test_pay(self):
         change = pay(3)
         self.assertEqual(change, 0)
         shop.client.get('/x')
";

const SCRIPT: &str = " import { total, rates as all } from './shop'
 import * as till from './till'
 import { fetchUser } from './api'
 import { it, expect } from 'vitest'

 it('adds up', () => {
   const sum = total([1, 2])
   expect(sum).toBe(3)
   expect(till.open()).toBe(true)
   expect(fetchUser).toHaveBeenCalled()
 })
";

#[test]
fn tests_that_are_taken_away_or_tested_on_stand_ins_are_found() {
    for (line, kind) in [
        ("del TestShop.test_old", Kind::TestSkipped),
        ("delattr(TestShop, \"test_old\")", Kind::TestSkipped),
        ("TestShop.test_old = print", Kind::TestSkipped),
        ("shop.total = unittest.mock.Mock(return_value=3)", Kind::AssertionRemoved),
        ("        shop.total = MagicMock(return_value=3)", Kind::AssertionRemoved),
        ("shop.total = lambda prices: 3", Kind::AssertionRemoved),
        ("pay = Mock(return_value=0)", Kind::AssertionRemoved),
        ("    @patch('shop.total', return_value=3)", Kind::AssertionRemoved),
        ("    @mock.patch.object(shop, \"total\", return_value=3)", Kind::AssertionRemoved),
        ("        monkeypatch.setattr(shop, 'total', f)", Kind::AssertionRemoved),
    ] {
        let found = weakened(&diff("test_shop.py", &format!("{PYTHON}+{line}")));
        assert_eq!(found.iter().map(|one| one.kind).collect::<Vec<_>>(), [kind], "{line}: {found:?}");
    }
    for line in [
        "vi.mock('./shop')",
        "jest.mock('./till', () => ({ open: () => true }))",
        "vi.mock('./shop', async () => ({ ...(await vi.importActual('./shop')), total: () => 3 }))",
        "vi.spyOn(till, 'open').mockReturnValue(true)",
    ] {
        let found = weakened(&diff("tests/it.test.ts", &format!("{SCRIPT}+{line}")));
        assert_eq!(found.len(), 1, "{line}: {found:?}");
        assert!(found[0].what.starts_with("what is tested is replaced: "), "{found:?}");
    }
    let pom = "     <properties>\n+      <maven.test.failure.ignore>true</maven.test.failure.ignore>\n     </properties>";
    let found = weakened(&diff("pom.xml", pom));
    assert_eq!(found.iter().map(|one| one.kind).collect::<Vec<_>>(), [Kind::FailureIgnored], "{found:?}");
    let ignored = added(".mvn/maven.config", "-Dmaven.test.failure.ignore=true");
    assert_eq!(weakened(&ignored)[0].kind, Kind::FailureIgnored);
    let shell = weakened(&added(".npmrc", "script-shell = /bin/true"));
    assert_eq!((shell.len(), shell[0].kind), (1, Kind::CheckChanged));
}

#[test]
fn what_the_tested_code_uses_may_be_replaced() {
    for line in [
        "        shop.client = Mock()",
        "@patch('shop.requests.get')",
        "@patch('time.sleep')",
        "        self.total = Mock()",
        "        mailer = MagicMock()",
        "        monkeypatch.setattr('shop.rates', {})",
        "        del self.test_data",
        "test_data = [1, 2]",
        "        del rows[0]",
    ] {
        let found = weakened(&diff("test_shop.py", &format!("{PYTHON}+{line}")));
        assert!(found.is_empty(), "{line}: {found:?}");
    }
    for line in [
        "vi.mock('./api')",
        "vi.mock('node-fetch')",
        "vi.mock('./shop', async () => ({ ...(await vi.importActual('./shop')), other: vi.fn() }))",
        "vi.spyOn(till, 'open')",
        "vi.spyOn(console, 'error').mockReturnValue(undefined)",
    ] {
        let found = weakened(&diff("tests/it.test.ts", &format!("{SCRIPT}+{line}")));
        assert!(found.is_empty(), "{line}: {found:?}");
    }
    assert!(weakened(&added(".npmrc", "registry = https://npm.example/")).is_empty());
}

#[test]
fn a_test_that_failed_and_asks_for_something_else_now_is_found() {
    let python = " class TestShop(unittest.TestCase):
     def test_total(self):
-        self.assertEqual(shop.total([1, 2]), 3)
+        self.assertEqual(shop.total([1, 2]), 4)

     def test_pay(self):
         self.assertEqual(pay(3), 0)
";
    let script =
        " it('adds up', () => {\n-  expect(total([1, 2])).toBe(3)\n+  expect(total([1, 2])).toBe(4)\n })\n";
    let rust = "     #[test]\n     fn adds_up() {\n-        assert_eq!(total(&[1, 2]), 3);\n+        assert_eq!(total(&[1, 2]), 4);\n     }\n";
    for (path, lines, name) in [
        ("test_shop.py", python, "test_shop.TestShop.test_total"),
        ("test_shop.py", python, "test_total (test_shop.TestShop.test_total)"),
        ("tests/test_shop.py", python, "tests/test_shop.py::TestShop::test_total[one]"),
        ("shop.test.ts", script, "shop.test.ts > shop > adds up"),
        ("src/lib.rs", rust, "tests::adds_up"),
    ] {
        let diff = diff(path, lines);
        assert!(weakened(&diff).is_empty(), "it asks for as much: {name}");
        let found = adapted(&diff, &[name.to_owned()]);
        assert_eq!(found.len(), 1, "{name}");
        let told = &found[0].what;
        assert!(told.contains("failed before, and it asks for something else now: "), "{told}");
        assert!(told.contains("4) was ") || told.contains("4); was "), "{told}");
    }
    let told = |failed: &str| adapted(&diff("test_shop.py", python), &[failed.to_owned()]);
    assert_eq!(told("test_shop.TestShop.test_pay"), [], "it was left alone");
    assert_eq!(told("test_shop.TestShop.retest_total"), [], "another one");
}

#[test]
fn of_more_than_are_listed_the_number_is_told() {
    let one = |n: usize| {
        diff(&format!("tests/test_{n}.py"), " def test_total():\n-    assert total() == 3\n     pay()")
    };
    let many = |count: usize| weakened(&(0..count).map(one).collect::<String>());
    assert_eq!(many(50).len(), 50);
    let found = many(77);
    assert_eq!(found.len(), 51);
    let last = found.last().unwrap();
    assert_eq!((last.kind, last.file.as_str()), (Kind::NotLookedAt, "the diff"));
    assert!(last.what.starts_with("27 more like these are not listed: in 27 files, tests/test_"), "{last:?}");
}
