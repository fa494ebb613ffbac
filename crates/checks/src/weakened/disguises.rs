//! The same where no assertion is touched: what keeps tests from saying anything, and what runs them.

use super::forms::check;
use super::weakened;

const PYTHON: &str = "import pytest\nfrom till import total\n\n\ndef test_a():\n    assert total([1]) == 3\n\n\ndef test_b():\n    with pytest.raises(ValueError, match=\"bad\"):\n        total(None)\n\n\nclass TestMore:\n    def test_c(self):\n        assert total([]) == 0\n";
const JEST: &str = "import { total } from './till';\n\ndescribe('total', () => {\n  it('adds', () => {\n    expect(total([1])).toBe(3);\n  });\n\n  it('waits', async () => {\n    await expect(go()).resolves.toBe(1);\n  });\n});\n";
const RUST: &str = "#[cfg(test)]\nmod tests {\n    use super::*;\n\n    #[test]\n    fn a() {\n        assert_eq!(total(), 3);\n    }\n\n    #[test]\n    #[should_panic(expected = \"overflow\")]\n    fn b() {\n        go();\n    }\n}\n";
const JAVA: &str = "import org.junit.jupiter.api.Test;\n\nclass TillTest {\n    @Test\n    void addsUp() {\n        assertEquals(3, total());\n    }\n}\n";
const GO: &str = "package till\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {\n\tif total() != 3 {\n\t\tt.Error()\n\t}\n}\n";

#[test]
fn tests_that_cannot_say_anything_are_told() {
    const P: &str = "tests/test_till.py";
    const J: &str = "src/till.test.js";
    check(&[
        (P, PYTHON, "def test_a():\n", "def test_a():\n    pytest.exit('done', returncode=0)\n", true),
        (P, PYTHON, "from till", "import sys; sys.exit(0)\nfrom till", true),
        (P, PYTHON, "def test_a", "async def test_a", true),
        (P, PYTHON, "def test_a", "@pytest.fixture\ndef test_a", true),
        (
            P,
            PYTHON,
            "def test_a():\n",
            "def test_a(request):\n    request.applymarker(pytest.mark.xfail)\n",
            true,
        ),
        (P, PYTHON, "class TestMore:\n", "class TestMore:\n    def __init__(self):\n        pass\n\n", true),
        (P, PYTHON, "== 3", "== 3 or 1", true),
        (P, PYTHON, "assert total([1]) == 3", "assert [total([1]) == 3]", true),
        (P, PYTHON, "assert total([1]) == 3", "assert lambda: total([1]) == 3", true),
        (P, PYTHON, "== 3", "== pytest.approx(3, abs=100)", true),
        (P, PYTHON, ", match=\"bad\"", "", true),
        (P, PYTHON, "match=\"bad\"", "match=\".*\"", true),
        (P, PYTHON, "def test_a", "@settings(max_examples=1)\ndef test_a", true),
        (
            P,
            PYTHON,
            "    assert total([1])",
            "    if os.environ.get('CI'):\n        return\n    assert total([1])",
            true,
        ),
        (J, JEST, "describe('total'", "const d = describe.skip;\nd('total'", true),
        (J, JEST, "describe('total'", "(process.env.X ? describe : describe.skip)('total'", true),
        (J, JEST, "resolves.toBe(1);", "resolves.toBe(1).catch(() => {});", true),
        (J, JEST, "toBe(3)", "toBeCloseTo(3, -2)", true),
        (J, JEST, "import {", "jest.mock('./till', () => ({ total: () => 3 }));\nimport {", true),
        (J, JEST, "import {", "vi.mock(\"../src/till.js\");\nimport {", true),
        (J, JEST, "describe('total'", "jest.retryTimes(5);\ndescribe('total'", true),
        (J, JEST, "    expect(total", "    if (!process.env.CI) expect(total", true),
        ("test/setup.js", "import 'x';\n", "import 'x';\n", "import 'x';\nglobal.it = () => {};\n", true),
        ("src/lib.rs", RUST, "(expected = \"overflow\")", "", true),
        ("src/lib.rs", RUST, "assert_eq!(total(), 3)", "assert!(matches!(total(), _))", true),
        (
            "src/lib.rs",
            RUST,
            "    use super::*;\n",
            "    use super::*;\n    macro_rules! assert_eq { ($($t:tt)*) => {} }\n",
            true,
        ),
        ("src/test/java/TillTest.java", JAVA, "class TillTest", "abstract class TillTest", true),
        ("src/test/java/TillTest.java", JAVA, "    void addsUp", "    private void addsUp", true),
        ("src/test/java/TillTest.java", JAVA, "org.junit.jupiter.api.Test", "shop.fake.Test", true),
        ("till_test.go", GO, "func TestA", "func TestMain(m *testing.M) {}\n\nfunc TestA", true),
        // Work as usual.
        (
            "src/lib.rs",
            RUST,
            "assert_eq!(total(), 3)",
            "assert_eq!(total(), 3); assert!(matches!(total(), Pair(3, _)))",
            false,
        ),
        (P, PYTHON, "assert total([1]) == 3", "assert [total([1])] == [3]", false),
        (P, PYTHON, "import pytest\n", "import asyncio\nimport pytest\n", false),
        (
            P,
            PYTHON,
            "def test_a():\n    assert total([1]) == 3",
            "async def test_a():\n    assert await total([1]) == 3",
            false,
        ),
        (P, PYTHON, "match=\"bad\"", "match=\"bad input\"", false),
        (
            P,
            PYTHON,
            "class TestMore:\n",
            "class Fake:\n    def __init__(self):\n        pass\n\n\nclass TestMore:\n",
            false,
        ),
        (
            P,
            PYTHON,
            "def test_b",
            "def test_new():\n    if os.environ.get('CI'):\n        return\n    assert 1 + total([]) == 1\n\n\ndef test_b",
            false,
        ),
        (J, JEST, "import {", "jest.mock('./mailer');\nimport {", false),
        (J, JEST, "'adds'", "'adds two'", false),
        ("src/lib.rs", RUST, "expected = \"overflow\"", "expected = \"too large\"", false),
        (
            "src/test/java/TillTest.java",
            JAVA,
            "import org.junit.jupiter.api.Test;",
            "import org.junit.Test;",
            false,
        ),
        (
            "till_test.go",
            GO,
            "func TestA",
            "func TestMain(m *testing.M) {\n\tos.Exit(m.Run())\n}\n\nfunc TestA",
            false,
        ),
        (
            "tests/test_run.py",
            "def test_a():\n    assert run() == 0\n",
            "run() == 0",
            "run(\"sys.exit(0)\") == 0",
            false,
        ),
    ]);
}

#[test]
fn what_runs_the_checks_is_told_where_it_does_less() {
    const PACKAGE: &str =
        "{\"name\":\"a\",\"scripts\":{\"unit\":\"jest\",\"test\":\"npm run unit\",\"dev\":\"vite\"}}\n";
    const CI: &str = "on:\n  push:\njobs:\n  test:\n    steps:\n      - run: pytest\n";
    check(&[
        ("package.json", PACKAGE, "\"jest\"", "\"true\"", true),
        ("package.json", PACKAGE, "npm run unit", "echo ok", true),
        ("package.json", PACKAGE, "\"vite\"", "\"vite --host\"", false),
        ("package.json", PACKAGE, "\"name\":\"a\"", "\"name\":\"b\"", false),
        ("Makefile", "test:\n\tpytest\n", "test:\n", "MAKEFLAGS += -i\ntest:\n", true),
        ("Makefile", "test:\n\tpytest\n", "test:\n", "SHELL = /bin/true\ntest:\n", true),
        ("Makefile", "test:\n\tpytest\n", "pytest\n", "pytest\n\ntest:\n\ttrue\n", true),
        ("Makefile", "CFLAGS = -Wall -Werror\n", " -Werror", "", true),
        ("Makefile", "CFLAGS = -Wall\n", "-Wall", "-Wall -Wextra", false),
        ("Makefile", "test:\n\tpytest\n", "pytest\n", "pytest\n\nclean:\n\trm -rf x\n", false),
        ("CMakeLists.txt", "add_compile_options(-Wall -Werror)\n", " -Werror", "", true),
        (
            "A.csproj",
            "<Project>\n<TreatWarningsAsErrors>true</TreatWarningsAsErrors>\n</Project>\n",
            "true",
            "false",
            true,
        ),
        ("A.csproj", "<Project>\n</Project>\n", "<Project>\n", "<Project>\n<NoWarn>CS0168</NoWarn>\n", true),
        (".github/workflows/ci.yml", CI, "  push:\n", "  push:\n    branches: [none]\n", true),
        (".github/workflows/ci.yml", CI, "  push:\n", "  push:\n    paths-ignore: ['**']\n", true),
        (
            ".pre-commit-config.yaml",
            "repos:\n- hooks:\n  - id: ruff\n",
            "ruff\n",
            "ruff\n    stages: [manual]\n",
            true,
        ),
        ("Rakefile", "task :test do\n  sh \"rspec\"\nend\n", "rspec", "true", true),
        ("bin/check", "#!/bin/sh\npytest\n", "pytest", "true", true),
        ("bin/start", "#!/bin/sh\nexec app\n", "exec app", "exec app --fast", false),
        (
            "tests/conftest.py",
            "import pytest\n",
            "import pytest\n",
            "import pytest\n\n@pytest.fixture(autouse=True)\ndef off():\n    pytest.skip('x')\n",
            true,
        ),
        (
            "conftest.py",
            "import os\n",
            "import os\n",
            "import atexit, os\natexit.register(os._exit, 0)\n",
            true,
        ),
        (
            "vitest.config.ts",
            "export default { test: {} }\n",
            "test: {}",
            "test: { exclude: ['src/a.test.ts'] }",
            true,
        ),
    ]);
}

fn added(path: &str, text: &str) -> String {
    let count = text.lines().count();
    let lines: String = text.lines().map(|line| format!("+{line}\n")).collect();
    format!(
        "diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{count} @@\n{lines}"
    )
}

#[test]
fn files_that_are_new_or_called_otherwise_are_told() {
    for (path, text) in [
        ("pytest.py", "import sys\nsys.exit(0)\n"),
        ("tests/unittest/__init__.py", "x = 1\n"),
        ("sitecustomize.py", "import os\n"),
        ("jest.config.js", "module.exports = { testPathIgnorePatterns: ['till'] }\n"),
        (
            "vitest.config.ts",
            "export default { test: { exclude: ['**/*.test.js'], passWithNoTests: true } }\n",
        ),
        (".mocharc.json", "{\"grep\": \"none\"}\n"),
    ] {
        assert_eq!(weakened(&added(path, text)).len(), 1, "{path}");
    }
    for (path, text) in
        [("src/pytest_plugin.py", "x = 1\n"), ("jest.config.js", "module.exports = { preset: 'a' }\n")]
    {
        assert_eq!(weakened(&added(path, text)), [], "{path}");
    }
    let renamed = |old: &str, new: &str| {
        weakened(&format!(
            "diff --git a/{old} b/{new}\nsimilarity index 100%\nrename from {old}\nrename to {new}\n"
        ))
    };
    for (old, new) in [
        ("tests/test_till.py", "tests/till_tests.py"),
        ("till_test.go", "_till_test.go"),
        ("till_test.go", "till_windows_test.go"),
    ] {
        assert_eq!(renamed(old, new).len(), 1, "{old} {new}");
    }
    for (old, new) in [("tests/test_till.py", "tests/till_test.py"), ("a_test.go", "a_linux_test.go")] {
        assert_eq!(renamed(old, new), [], "{old} {new}");
    }
}
