//! Which command gives which golden, and where its sources are.

/// Goldens that one tool gives for the sources in one folder of `tests/real`; each is named with the command for `sh`.
pub(crate) struct Cases {
    /// As `scripts/check-tools.py` calls it.
    pub(crate) tool: &'static str,
    pub(crate) folder: &'static str,
    pub(crate) goldens: &'static [(&'static str, &'static str)],
}

/// Written by hand, after the protocol's documentation: Perl's runner says it otherwise.
pub(crate) const BY_HAND: &[&str] = &["tap_bail"];

const fn cases(
    tool: &'static str,
    folder: &'static str,
    goldens: &'static [(&'static str, &'static str)],
) -> Cases {
    Cases { tool, folder, goldens }
}

pub(crate) const CASES: &[Cases] = &[
    cases(
        "cargo",
        "rust/till",
        &[
            ("cargo_json", "cargo check --message-format=json"),
            ("cargo_short", "cargo check --message-format=short"),
        ],
    ),
    cases("cargo", "rust/broken", &[("cargo_build_errors", "cargo build")]),
    cases("cargo", "rust/syn", &[("cargo_syntax", "cargo test")]),
    cases(
        "cargo",
        "rust/abort",
        &[
            ("cargo_abort", "cargo test -- --test-threads=2"),
            ("cargo_abort_alone", "cargo test -- --test-threads=1"),
        ],
    ),
    cases("cargo", "rust/alone", &[("rust_panic", "rustc -g till.rs && ./till; RUST_BACKTRACE=1 ./till")]),
    cases("cargo", "rust/doc", &[("cargo_doctest_compile", "cargo test")]),
    cases("cargo", "rust/manifest", &[("cargo_manifest", "cargo build")]),
    cases("cargo", "rust/missing", &[("cargo_missing_dependency", "cargo build")]),
    cases(
        "cargo",
        "rust/shop",
        &[
            ("cargo_test_many", "cargo test --no-fail-fast"),
            ("cargo_test_colour", "TERM=xterm cargo test --no-fail-fast --color always -- --color always"),
            ("cargo_test_quiet", "cargo test --no-fail-fast --quiet"),
            ("cargo_test_nocapture", "cargo test --lib -- --nocapture --test-threads=1"),
            ("cargo_test_show_output", "cargo test --lib -- --show-output halves total"),
            ("cargo_test_backtrace", "RUST_BACKTRACE=1 cargo test --lib -- total_of_two in_a_thread"),
            ("cargo_test_pass", "cargo test --test clean"),
        ],
    ),
    cases("cargo", "rust/lint", &[("cargo_check_warnings", "cargo check")]),
    cases(
        "clippy",
        "rust/lint",
        &[
            ("cargo_clippy_warnings", "cargo clippy"),
            ("cargo_clippy_denied", "cargo clippy -- -D warnings"),
            ("cargo_clippy_json", "cargo clippy --message-format=json"),
        ],
    ),
    cases(
        "nextest",
        "rust/shop",
        &[
            ("cargo_nextest", "cargo nextest run --no-fail-fast"),
            (
                "junit_nextest",
                "cargo nextest run --no-fail-fast --profile junit >log 2>&1; cat target/nextest/junit/junit.xml",
            ),
        ],
    ),
    cases(
        "pytest",
        "python/till",
        &[
            ("pytest_default", "python -m pytest"),
            ("pytest_verbose", "python -m pytest -v"),
            ("pytest_quiet", "python -m pytest -q"),
            ("pytest_colour", "python -m pytest -q --color=yes"),
            ("pytest_short_traceback", "python -m pytest -v --tb=short"),
            ("pytest_line_traceback", "python -m pytest -q --tb=line"),
            ("pytest_no_traceback", "python -m pytest -q --tb=no"),
            ("pytest_native", "python -m pytest -q --tb=native -k 'total or exception'"),
            ("pytest_pass", "python -m pytest -q -k 'online or items or fine'"),
            ("junit_pytest_errors", "python -m pytest -q --junitxml=out.xml >log 2>&1; cat out.xml"),
        ],
    ),
    cases("pytest", "python/more", &[("pytest_more", "python -m pytest")]),
    cases(
        "pytest",
        "python/collect",
        &[
            ("pytest_collection", "python -m pytest"),
            ("pytest_collection_quiet", "python -m pytest -q"),
            ("pytest_interrupted", "python -m pytest tests/test_stop.py"),
            ("pytest_nofile", "python -m pytest tests/nope.py"),
            ("pytest_usage", "python -m pytest --nope"),
        ],
    ),
    cases("pytest", "python/conftest", &[("pytest_conftest", "python -m pytest")]),
    cases("pytest", "python/small", &[("pytest_till", "python -m pytest -q test_till.py")]),
    cases(
        "pytest",
        "python/shop",
        &[("junit_pytest", "python -m pytest -q --junitxml=out.xml test_till.py >log 2>&1; cat out.xml")],
    ),
    cases("unittest", "python/small", &[("unittest_till", "python -m unittest")]),
    cases(
        "unittest",
        "python/shop",
        &[
            ("unittest_default", "python -m unittest"),
            ("unittest_verbose", "python -m unittest -v"),
            (
                "unittest_pass",
                "python -m unittest test_till.TillTest.test_empty test_till.TillTest.test_later",
            ),
        ],
    ),
    cases(
        "unittest",
        "python/says",
        &[("unittest_says", "python -m unittest"), ("unittest_says_verbose", "python -m unittest -v")],
    ),
    cases(
        "unittest",
        "python/run",
        &[
            ("traceback", "python run.py"),
            ("doctest", "python documented.py"),
            ("doctest_verbose", "python -m doctest -v documented.py"),
        ],
    ),
    cases("mypy", "python/small", &[("mypy_till", "mypy shop.py")]),
    cases(
        "mypy",
        "python/shop",
        &[
            ("mypy", "mypy lint.py"),
            ("mypy_columns", "mypy --show-column-numbers --show-error-end lint.py"),
            ("mypy_pretty", "mypy --pretty lint.py"),
            ("mypy_json", "mypy --output=json lint.py"),
            ("mypy_pass", "mypy fine.py"),
        ],
    ),
    cases("ruff", "python/small", &[("ruff_till", "ruff check --isolated shop.py")]),
    cases(
        "ruff",
        "python/shop",
        &[
            ("ruff", "ruff check --isolated --select F,I lint.py"),
            ("ruff_concise", "ruff check --isolated --select F,I --output-format=concise lint.py"),
            ("ruff_json", "ruff check --isolated --select F,I --output-format=json lint.py"),
            ("ruff_pass", "ruff check --isolated fine.py"),
            ("sarif_ruff", "ruff check --isolated --select F,I --output-format=sarif lint.py"),
            ("junit_ruff", "ruff check --isolated --select F,I --output-format=junit lint.py"),
        ],
    ),
    cases(
        "pyright",
        "python/shop",
        &[("pyright", "pyright lint.py"), ("pyright_json", "pyright --outputjson lint.py")],
    ),
    cases(
        "typescript",
        "tsc",
        &[("tsc_7", "tsc --noEmit a.ts"), ("tsc_7_pretty", "tsc --noEmit --pretty a.ts")],
    ),
    cases(
        "typescript-5",
        "tsc",
        &[
            ("tsc", "tsc --noEmit a.ts"),
            ("tsc_pretty", "tsc --noEmit --pretty a.ts"),
            ("tsc_german", "tsc --noEmit --locale de b.ts"),
            ("tsc_japanese", "tsc --noEmit --pretty --locale ja b.ts"),
        ],
    ),
    cases("eslint", "eslint", &[("eslint", "eslint lib"), ("eslint_json", "eslint -f json lib")]),
    cases("eslint-sarif", "eslint", &[("sarif_eslint", "eslint -f @microsoft/eslint-formatter-sarif lib")]),
    cases(
        "jest",
        "jest",
        &[
            ("jest_default", "jest"),
            ("jest_verbose", "jest --verbose"),
            ("jest_colour", "jest --colors"),
            ("jest_json", "jest --json"),
            ("jest_pass", "jest src/ok.test.js"),
        ],
    ),
    cases("jest-junit", "jest", &[("junit_jest", "jest --reporters=jest-junit >log 2>&1; cat junit.xml")]),
    cases(
        "vitest",
        "vitest",
        &[
            ("vitest_default", "vitest run src"),
            ("vitest_verbose", "vitest run --reporter=verbose src"),
            ("vitest_colour", "FORCE_COLOR=1 vitest run src"),
            ("vitest_pass", "vitest run src/ok.test.ts"),
            ("vitest_unhandled", "vitest run late"),
            ("junit_vitest", "vitest run --reporter=junit src"),
            ("tap_vitest", "vitest run --reporter=tap src"),
        ],
    ),
    cases(
        "vitest-4",
        "vitest",
        &[("vitest_4", "vitest run src"), ("vitest_json", "vitest run --reporter=json src")],
    ),
    cases("node", "node/small", &[("node-test_till", "node --test")]),
    cases(
        "node",
        "node/till",
        &[
            ("node-test_spec", "node --test --test-reporter=spec"),
            ("node-test_tap", "node --test --test-reporter=tap"),
            ("junit_node", "node --test --test-reporter=junit"),
        ],
    ),
    cases(
        "node",
        "node/load",
        &[
            ("node-test_load_spec", "node --test --test-reporter=spec"),
            ("node-test_load_tap", "node --test --test-reporter=tap"),
            ("node-test_dot", "node --test --test-reporter=dot"),
            ("node_crash", "node till.test.js; node gone.test.mjs; node closed.test.js"),
            ("junit_node_load", "node --test --test-reporter=junit"),
        ],
    ),
    cases(
        "go",
        "go",
        &[
            ("go_test", "go test ."),
            ("go_verbose", "go test -v ."),
            ("go_all", "go test ./..."),
            ("go_build", "go build ./broken"),
            ("go_vet", "go vet ./vets"),
            ("go_panic", "go test ./panics"),
            ("go_json", "go test -json ."),
            ("go_json_all", "go test -json ./..."),
        ],
    ),
    cases(
        "gcc",
        "c/crash",
        &[
            ("c_assert", "gcc -g assert.c -o assert && ./assert"),
            ("c_sanitizer", "gcc -g -fsanitize=address,undefined sanitizer.c -o sanitizer && ./sanitizer"),
            ("make_separator", "make -f separator.mk"),
        ],
    ),
    cases("gcc", "c/small", &[("gcc_english", "gcc -Wall -c main.c -o main.o")]),
    cases(
        "gcc",
        "c/shop",
        &[
            ("gcc", "gcc -Wall -c main.c -o main.o"),
            (
                "gcc_json",
                "gcc -Wall -fdiagnostics-format=json -c main.c -o main.o; gcc -fdiagnostics-format=json -c fatal.c -o main.o",
            ),
            ("gcc_fatal", "gcc -Wall -c fatal.c -o main.o"),
            ("gcc_link", "gcc link.c -o link"),
        ],
    ),
    cases("g++", "c/shop", &[("gcc_cpp", "g++ -c b.cpp -o b.o")]),
    cases(
        "gcc-locales",
        "c/small",
        &[
            ("gcc_german", "LC_ALL=de_DE.UTF-8 gcc -Wall -c main.c -o main.o"),
            ("gcc_french", "LC_ALL=fr_FR.UTF-8 gcc -Wall -c main.c -o main.o"),
            ("gcc_japanese", "LC_ALL=ja_JP.UTF-8 gcc -Wall -c main.c -o main.o"),
        ],
    ),
    cases(
        "gcc-locales",
        "c/shop",
        &[
            ("gcc_german_fatal", "LC_ALL=de_DE.UTF-8 gcc -Wall -c fatal.c -o main.o"),
            ("gcc_german_link", "LC_ALL=de_DE.UTF-8 gcc link.c -o link"),
        ],
    ),
    cases("clang", "c/small", &[("gcc_clang", "clang -Wall -c main.c -o main.o")]),
    cases(
        "clang",
        "c/shop",
        &[("gcc_clang_cpp", "clang++ -c cpp.cpp -o cpp.o"), ("gcc_clang_link", "clang link.c -o link")],
    ),
    cases(
        "clang-19",
        "c/small",
        &[
            ("gcc_clang_19", "clang-19 -Wall -c main.c -o main.o"),
            ("sarif_clang", "clang-19 -Wall -fdiagnostics-format=sarif -c main.c -o main.o"),
        ],
    ),
    cases(
        "javac",
        "java",
        &[
            ("javac", "javac -Xlint:all -d out shop/B.java"),
            ("javac_syntax", "javac -d out shop/Till.java"),
            ("javac_japanese", "javac -J-Duser.language=ja -Xlint:all -d out shop/B.java"),
            ("javac_chinese", "javac -J-Duser.language=zh -J-Duser.country=CN -Xlint:all -d out shop/B.java"),
        ],
    ),
    cases(
        "javac",
        "java",
        &[("java_exception", "javac -d out shop/Closed.java && java -cp out shop.Closed")],
    ),
    cases("gradle", "gradle/compile", &[("gradle_compile", "gradle --offline --no-daemon build")]),
    cases(
        "gradle",
        "gradle/test",
        &[
            ("gradle_test", "gradle --offline --no-daemon test"),
            ("gradle_rich", "TERM=xterm gradle --offline --no-daemon --console=rich test"),
            (
                "junit_gradle",
                "gradle --offline --no-daemon test >log 2>&1; cat build/test-results/test/*.xml",
            ),
        ],
    ),
    cases(
        "maven",
        "maven/compile",
        &[(
            "javac_maven_compile",
            "cp -rs /usr/share/maven-repo repo && mvn --offline --batch-mode -Dmaven.repo.local=$PWD/repo compile",
        )],
    ),
    cases(
        "maven",
        "maven/test",
        &[
            (
                "javac_maven",
                "cp -rs /usr/share/maven-repo repo && mvn --offline --batch-mode -Dmaven.repo.local=$PWD/repo test",
            ),
            (
                "junit_maven",
                "cp -rs /usr/share/maven-repo repo && mvn --offline --batch-mode -Dmaven.repo.local=$PWD/repo test >log 2>&1; cat target/surefire-reports/*.xml",
            ),
        ],
    ),
    cases(
        "perl",
        "perl",
        &[
            ("perl_die", "perl die.pl"),
            ("tap_till", "perl till.t"),
            ("tap_perl", "perl more.t"),
            ("tap_prove", "prove -v more.t"),
        ],
    ),
];
