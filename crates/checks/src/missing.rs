//! Output that says that a check's program is not there at all: nothing that a change could mend, and nothing that a model
//! or a person should look for in the code.

/// Most bytes of output that are looked at: where the program is missing, there is little more than that.
const LOOKED_AT: usize = 64 * 1024;
/// Longest name of a program.
const NAME: usize = 60;
/// What shells exit with when there is no such program, and what programs pass on that run others.
const NOT_FOUND: i32 = 127;

/// The program that is missing, by what the output of a check says and how it ended.
pub fn missing_program(output: &str, exit_code: i32) -> Option<String> {
    if exit_code == 0 {
        return None;
    }
    let from = output.floor_char_boundary(output.len().saturating_sub(LOOKED_AT));
    let output = crate::clean(&output[from..]);
    output
        .lines()
        .find_map(|line| missing_on(line.trim(), exit_code))
        .filter(|name| is_name(name))
        .map(str::to_owned)
}

fn missing_on(line: &str, exit_code: i32) -> Option<&str> {
    // `/usr/bin/python3: No module named pytest`, which is not what an import in a test says.
    if let Some((python, module)) = line.split_once(": No module named ") {
        let program = python.rsplit('/').next().unwrap_or(python);
        return program.starts_with("python").then(|| module.trim_matches(['\'', '"']));
    }
    // `error: no such command: `nextest``.
    if let Some(command) = line.strip_prefix("error: no such command: `") {
        return command.strip_suffix('`');
    }
    if exit_code != NOT_FOUND && !line.starts_with("make: ") {
        return None;
    }
    if let Some(rest) = line.strip_prefix("make: ") {
        return rest.strip_suffix(": No such file or directory");
    }
    // `sh: 1: jest: not found`, `bash: line 1: jest: command not found`.
    let said = line.strip_suffix(": not found").or_else(|| line.strip_suffix(": command not found"))?;
    said.rsplit(": ").next()
}

fn is_name(name: &str) -> bool {
    let good = |c: char| c.is_alphanumeric() || "-_.+/@".contains(c);
    !name.is_empty() && name.len() <= NAME && name.chars().all(good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_is_named() {
        for (output, code, name) in [
            ("/usr/bin/python3: No module named pytest\n", 1, "pytest"),
            ("/opt/venv/bin/python: No module named 'tox'\n", 1, "tox"),
            ("sh: 1: jest: not found\n", 127, "jest"),
            ("> app@1.0.0 test\n> vitest run\n\nsh: 1: vitest: not found\n", 127, "vitest"),
            ("/bin/sh: line 1: go: command not found\n", 127, "go"),
            ("bash: cargo: command not found", 127, "cargo"),
            (
                "cargo test\nmake: cargo: No such file or directory\nmake: *** [Makefile:2: test] Error 127\n",
                2,
                "cargo",
            ),
            (
                "error: no such command: `nextest`\n\nhelp: a command with a similar name exists: `test`",
                101,
                "nextest",
            ),
        ] {
            assert_eq!(missing_program(output, code).as_deref(), Some(name), "{output}");
        }
    }

    #[test]
    fn what_fails_for_another_reason_is_not_taken_for_it() {
        for (output, code) in [
            ("E   ModuleNotFoundError: No module named 'till'\n", 1),
            ("ImportError: No module named requests\n", 1),
            ("error: config file: not found\n", 1),
            ("sh: 1: jest: not found\n", 0),
            ("a test says that something was: not found\n", 127),
            ("make: *** No rule to make target 'x'.  Stop.\n", 2),
            ("", 127),
        ] {
            assert_eq!(missing_program(output, code), None, "{output}");
        }
    }
}
