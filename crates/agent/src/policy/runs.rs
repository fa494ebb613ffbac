//! Whether a command runs something that its name does not tell: a shell, an interpreter that is given a text, a program with
//! an option that names another one. Where there is a doubt it does; what is on a list of harmless forms does not.

use super::command::Simple;
use super::pattern::{A_NAME, ANYTHING};

/// Programs that run what stands in their arguments, in a file or in their input, or that change what a name means.
const RUNNERS: [&str; 64] = [
    ".",
    "alias",
    "ash",
    "at",
    "awk",
    "bash",
    "batch",
    "bind",
    "compgen",
    "complete",
    "crontab",
    "csh",
    "dash",
    "ed",
    "elvish",
    "emacs",
    "enable",
    "entr",
    "eval",
    "ex",
    "expect",
    "fc",
    "fish",
    "gawk",
    "gdb",
    "guile",
    "hash",
    "irb",
    "julia",
    "ksh",
    "lldb",
    "mawk",
    "mksh",
    "nawk",
    "nsenter",
    "nvim",
    "osascript",
    "parallel",
    "posh",
    "pwsh",
    "rbash",
    "rc",
    "rscript",
    "screen",
    "script",
    "sh",
    "shopt",
    "socat",
    "source",
    "ssh",
    "su",
    "systemd-run",
    "tclsh",
    "tmux",
    "trap",
    "vi",
    "view",
    "vim",
    "watch",
    "wish",
    "xargs",
    "xonsh",
    "yash",
    "zsh",
];

/// Programs that run their arguments as a command.
const WRAPPERS: [&str; 36] = [
    "builtin",
    "busybox",
    "catchsegv",
    "chpst",
    "chroot",
    "chrt",
    "command",
    "dbus-run-session",
    "doas",
    "env",
    "exec",
    "fakeroot",
    "firejail",
    "flock",
    "ionice",
    "ltrace",
    "nice",
    "nohup",
    "numactl",
    "perf",
    "prlimit",
    "proot",
    "runuser",
    "setarch",
    "setpriv",
    "setsid",
    "stdbuf",
    "strace",
    "sudo",
    "taskset",
    "time",
    "timeout",
    "toybox",
    "unshare",
    "valgrind",
    "xvfb-run",
];

/// Programs that run their arguments as a command, in the surroundings of a project, and the words of which one must come first.
const IN_PROJECT: [(&str, &[&str]); 11] = [
    ("bun", &["x"]),
    ("bundle", &["exec"]),
    ("bunx", &[]),
    ("npm", &["exec", "x"]),
    ("npx", &[]),
    ("pipenv", &["run"]),
    ("pnpm", &["dlx", "exec"]),
    ("pnpx", &[]),
    ("poetry", &["run"]),
    ("uv", &["run"]),
    ("yarn", &["dlx", "exec"]),
];

/// Options of theirs that have no value and run nothing.
const PLAIN: [&str; 10] = [
    "--",
    "--frozen",
    "--locked",
    "--no-install",
    "--no-sync",
    "--offline",
    "--quiet",
    "--silent",
    "--yes",
    "-y",
];

/// Programs that run a text if they are given one, without the number of their version.
const INTERPRETERS: [&str; 11] =
    ["bun", "deno", "lua", "luajit", "node", "nodejs", "perl", "php", "pypy", "python", "ruby"];

/// Parts of the names of options that say what to run.
const TELLING: [&str; 8] = ["cmd", "command", "eval", "exec", "program", "rsh", "shell", "split-string"];

/// Modules of Python that run a text.
const MODULES: [&str; 8] = ["asyncio", "cProfile", "code", "pdb", "profile", "runpy", "timeit", "trace"];

/// Options of `git config` that say where and how, and not what is done.
const ABOUT_CONFIG: [&str; 10] = [
    "--bool",
    "--global",
    "--int",
    "--local",
    "--name-only",
    "--null",
    "--show-origin",
    "--show-scope",
    "--system",
    "--worktree",
];

/// Settings of git that run nothing.
const SETTINGS: [&str; 13] = [
    "advice.",
    "branch.",
    "color.",
    "commit.gpgsign",
    "core.autocrlf",
    "core.quotepath",
    "fetch.prune",
    "init.defaultbranch",
    "log.",
    "pull.",
    "push.",
    "safe.directory",
    "user.",
];

/// The name of the program without its directory.
pub(super) fn program(words: &[String]) -> Option<&str> {
    words.first()?.rsplit('/').next()
}

/// What a command runs that it has in its words.
enum Runs<'a> {
    /// Nothing.
    Nothing,
    /// These words, as they are.
    These(&'a [String]),
    /// Some of its words, or others made of them.
    Some,
}

fn runs(words: &[String]) -> Runs<'_> {
    let (Some(name), arguments) = (program(words), words.get(1..).unwrap_or_default()) else {
        return Runs::Nothing;
    };
    if WRAPPERS.contains(&name) || is_loader(name) {
        return Runs::Some;
    }
    let Some((_, firsts)) = IN_PROJECT.iter().find(|(known, _)| *known == name) else { return Runs::Nothing };
    let is_first = |word: &String| firsts.contains(&word.as_str());
    let rest = match arguments {
        all if firsts.is_empty() => all,
        [first, rest @ ..] if is_first(first) => rest,
        // An option before it may have the next word as its value.
        [option, rest @ ..] if option.starts_with(['-', ANYTHING, A_NAME]) && rest.iter().any(is_first) => {
            return Runs::Some;
        }
        _ => return Runs::Nothing,
    };
    let plain = rest.iter().take_while(|word| PLAIN.contains(&word.as_str())).count();
    match rest[plain..].first() {
        None => Runs::Nothing,
        Some(word) if word.starts_with(['-', ANYTHING, A_NAME]) => Runs::Some,
        Some(_) => Runs::These(&rest[plain..]),
    }
}

/// The command that another one runs, where its words are known.
pub(super) fn carried(command: &Simple) -> Option<Simple> {
    match runs(&command.words) {
        Runs::These(words) => Some(Simple { words: words.to_vec(), ..command.clone() }),
        Runs::Nothing | Runs::Some => None,
    }
}

/// The commands that the words of one may be: itself, what it runs, and all that begins at one of them where that cannot be told.
pub(super) fn possible(words: &[String]) -> Vec<&[String]> {
    match runs(words) {
        Runs::Nothing => vec![words],
        Runs::These(carried) => [vec![words], possible(carried)].concat(),
        Runs::Some => (0..words.len()).map(|from| &words[from..]).collect(),
    }
}

/// Whether a command runs something that its name does not tell.
pub(super) fn runs_others(command: &Simple) -> bool {
    matches!(runs(&command.words), Runs::Some)
        || command.variables.iter().any(|variable| tells_how(variable))
        || hides(&command.words)
        || carried(command).is_some_and(|carried| runs_others(&carried))
}

/// Whether a command can read and write what none of its words names. One that only runs its arguments names it in them.
pub(super) fn hides_files(command: &Simple) -> bool {
    let words = &command.words;
    if command.variables.iter().any(|variable| tells_how(variable)) {
        return true;
    }
    match runs(words) {
        Runs::Some => {}
        Runs::Nothing => return hides(words),
        Runs::These(_) => {
            return hides(words) || carried(command).is_some_and(|carried| hides_files(&carried));
        }
    }
    let text =
        |word: &String| ["-c", "-S", "-s", "-i"].iter().any(|flag| word.starts_with(flag)) || tells(word);
    words.iter().skip(1).any(text) || (1..words.len()).any(|from| hides(&words[from..]))
}

/// Whether a command, or one that it is given, goes to another directory, or takes its files from there.
pub(super) fn goes(command: &Simple) -> bool {
    let Some(name) = program(&command.words) else { return false };
    let arguments = &command.words[1..];
    let is_cd = |name: &str| matches!(name, "cd" | "pushd" | "popd");
    if is_cd(name) {
        // The work begins there.
        return !(arguments.len() == 1 && arguments[0] == super::target::WORKSPACE);
    }
    if WRAPPERS.contains(&name) && arguments.iter().any(|word| is_cd(word)) {
        return true;
    }
    let long = ["--chdir", "--cwd", "--dir", "--git-dir", "--prefix", "--work-tree"];
    // There it is the number of lines around a match.
    let around = name.ends_with("grep") || matches!(name, "rg" | "ag" | "ack" | "diff" | "ls");
    let cluster = |word: &String| is_cluster(word) && word.contains('C');
    arguments.iter().any(|word| long.iter().any(|flag| word.starts_with(flag)))
        || (!around && arguments.iter().any(cluster))
        || (name.ends_with("tar") && arguments.first().is_some_and(|word| word.contains('C')))
        || (name == "sudo" && arguments.iter().any(|word| word.starts_with("-D")))
}

fn hides(words: &[String]) -> bool {
    let Some(name) = program(words) else { return false };
    let arguments = &words[1..];
    if RUNNERS.contains(&name.to_ascii_lowercase().as_str()) || is_loader(name) {
        return true;
    }
    if let Some(interpreter) = interpreter(name) {
        return interprets(interpreter, arguments);
    }
    if arguments.iter().any(|word| tells(word)) {
        return true;
    }
    match name {
        "find" | "fd" | "fdfind" => {
            let acts = ["-delete", "-ok", "-fprint", "-fls", "-x", "-X"];
            arguments.iter().any(|word| acts.iter().any(|act| word.starts_with(act)))
        }
        "git" => git(arguments),
        "sed" | "gsed" => !sed_is_plain(arguments),
        "tar" | "gtar" | "bsdtar" => tar(arguments),
        "make" | "gmake" | "ninja" | "just" => {
            let given = |word: &String| is_input(word) || word == "-f-" || word.starts_with("-E");
            arguments.iter().any(given) || arguments.iter().any(|word| word.starts_with("SHELL="))
        }
        "rsync" | "scp" | "sftp" | "nc" | "ncat" | "netcat" | "zip" => {
            arguments.iter().any(|word| is_cluster(word) && word.contains(['e', 'c', 'S', 'T']))
        }
        "split" => arguments.iter().any(|word| word.starts_with("--f")),
        "sort" => arguments.iter().any(|word| word.starts_with("--com")),
        "npx" | "npm" | "pnpm" | "yarn" => {
            arguments.iter().any(|word| word == "-c" || word.starts_with("--cal"))
        }
        "set" => !arguments.iter().all(|word| {
            matches!(word.as_str(), "-o" | "pipefail" | "errexit" | "nounset" | "xtrace")
                || word.strip_prefix('-').is_some_and(|flags| flags.chars().all(|flag| "eux".contains(flag)))
                || word.strip_prefix("-").is_some_and(|flags| matches!(flags, "euo" | "eo" | "euxo" | "exo"))
        }),
        // The shell reckons what it is given here, and what it reckons can run commands.
        "let" | "coproc" => true,
        "declare" | "typeset" | "local" | "readonly" | "export" => arguments.iter().any(|word| {
            word.contains('[') || tells_how(word) || (is_cluster(word) && word.contains(['i', 'n', 'a', 'A']))
        }),
        "printf" => match arguments {
            [flag, name, ..] if flag == "-v" => !is_name(name),
            [flag, ..] => flag.starts_with("-v"),
            [] => false,
        },
        "test" | "[" => {
            let asks = arguments.iter().position(|word| matches!(word.as_str(), "-v" | "-R"));
            asks.is_some_and(|at| !arguments.get(at + 1).is_some_and(|word| is_name(word)))
        }
        "read" | "mapfile" | "readarray" | "unset" | "getopts" => {
            let odd = |word: &String| word.contains(['[', '$', '`', ANYTHING, A_NAME]);
            arguments.iter().any(|word| odd(word) || (is_cluster(word) && word.contains('C')))
        }
        "wait" => arguments.iter().any(|word| is_cluster(word)),
        _ => false,
    }
}

/// Which interpreter a program is, of whatever version.
fn interpreter(name: &str) -> Option<&'static str> {
    let version = |rest: &str| rest.starts_with(|letter: char| letter.is_ascii_digit() || letter == '.');
    let is = |known: &&&str| name.strip_prefix(**known).is_some_and(|rest| rest.is_empty() || version(rest));
    INTERPRETERS.iter().find(is).copied()
}

/// The loader of programs, which runs the one that it is given.
fn is_loader(name: &str) -> bool {
    (name.starts_with("ld-") || name.starts_with("ld.")) && name.contains(".so") || name == "ld.so"
}

/// Several short options in one word, or one.
fn is_cluster(word: &str) -> bool {
    word.starts_with('-') && !word.starts_with("--")
}

/// Whether a word is the name of a variable.
fn is_name(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

/// Whether a word stands for what comes in.
fn is_input(word: &String) -> bool {
    word == "-" || word.starts_with("/dev/") || word.starts_with("/proc/")
}

/// Whether an option says what to run.
fn tells(word: &str) -> bool {
    let name = word.split('=').next().unwrap_or_default().to_ascii_lowercase();
    name.starts_with('-') && TELLING.iter().any(|part| name.contains(part))
}

/// Whether a variable says how programs are found and run, or holds a text that the shell may run when it reckons with it.
fn tells_how(variable: &str) -> bool {
    let Some((name, value)) = variable.split_once('=') else { return false };
    let ends = [
        "ASKPASS", "BROWSER", "COMMAND", "EDITOR", "OPTIONS", "PAGER", "PATH", "PRELOAD", "SHELL", "SSH",
        "VISUAL", "WRAPPER", "_OPTS", "5OPT", "RUBYOPT", "STARTUP", "RUNNER", "LINKER",
    ];
    let is_git = name.starts_with("GIT_") && !name.contains("AUTHOR") && !name.contains("COMMITTER");
    ends.iter().any(|end| name.ends_with(end))
        || is_git
        || name.starts_with("LD_")
        || matches!(name, "BASH_ENV" | "ENV" | "PS4" | "LESSOPEN" | "LESSCLOSE" | "PERL5DB" | "MAKEFLAGS")
        || value.contains("$(")
        || value.contains('`')
}

/// Whether an interpreter is given a text, or reads one, and not a file of the repository.
fn interprets(name: &str, arguments: &[String]) -> bool {
    let mut words = arguments.iter();
    // Flags that run nothing, those that have a value, and the beginnings of long ones.
    let (flags, valued, long): (&str, &str, &[&str]) = match name {
        "python" | "pypy" => ("uBOIsSqvEPb", "WX", &[]),
        "perl" => ("wWtTs", "I", &[]),
        "ruby" => ("wv", "I", &["--enable", "--disable"]),
        "php" => ("lq", "", &[]),
        "node" | "nodejs" => (
            "",
            "",
            &[
                "--no-",
                "--test",
                "--max-",
                "--enable-",
                "--trace-",
                "--check",
                "--unhandled-",
                "--stack-",
                "--harmony",
            ],
        ),
        "deno" | "bun" => ("q", "", &["--quiet"]),
        _ => ("", "", &[]),
    };
    while let Some(word) = words.next() {
        if matches!(word.as_str(), "--version" | "--help" | "-V" | "-h") && arguments.len() == 1 {
            return false;
        }
        if is_input(word) || word.starts_with([ANYTHING, A_NAME]) {
            return true;
        }
        let Some(cluster) = word.strip_prefix('-') else {
            let does = matches!(word.as_str(), "eval" | "exec" | "repl");
            let reads = || words.clone().any(|word| word == "-");
            return matches!(name, "deno" | "bun") && (does || reads());
        };
        if name == "python" && cluster.trim_start_matches(|flag| flags.contains(flag)) == "m" {
            let module = words.next();
            return module.is_none_or(|module| {
                MODULES.contains(&module.as_str()) || module.contains([ANYTHING, A_NAME])
            });
        }
        let rest = cluster.trim_start_matches(|flag| flags.contains(flag));
        match rest.chars().next() {
            None if !cluster.is_empty() => {}
            Some(flag) if valued.contains(flag) => {
                if rest.len() == 1 {
                    words.next();
                }
            }
            _ if long.iter().any(|start| word.starts_with(start)) => {}
            _ => return true,
        }
    }
    // Without a file it reads what comes in; tests of node are found by it.
    !(arguments.len() == 1 && arguments[0] == "--test")
}

/// The words of git without its own options, which stand before what it does.
pub(super) fn git_does(arguments: &[String]) -> &[String] {
    let valued = [
        "-C",
        "-c",
        "--git-dir",
        "--work-tree",
        "--namespace",
        "--super-prefix",
        "--config-env",
        "--attr-source",
    ];
    let mut rest = arguments;
    while let Some((word, after)) = rest.split_first() {
        if !word.starts_with('-') {
            break;
        }
        let value = valued.contains(&word.as_str());
        rest = if value { after.get(1..).unwrap_or_default() } else { after };
    }
    rest
}

/// Whether git runs another program.
fn git(arguments: &[String]) -> bool {
    let does = git_does(arguments);
    let own = &arguments[..arguments.len() - does.len()];
    let is_harmless = |setting: &str| {
        let setting = setting.to_ascii_lowercase();
        SETTINGS.iter().any(|known| setting.starts_with(known)) && !setting.contains(['`', '!'])
    };
    for (at, word) in own.iter().enumerate() {
        let sets = word == "-c" && !own.get(at + 1).is_some_and(|setting| is_harmless(setting));
        if sets || word.starts_with("--config-env") || (word.starts_with("-c") && word.len() > 2) {
            return true;
        }
    }
    let Some((name, rest)) = does.split_first() else { return false };
    let has = |test: &dyn Fn(&String) -> bool| rest.iter().any(test);
    let short = |flag: char| move |word: &String| is_cluster(word) && word.contains(flag);
    if has(&|word| word.contains("ext::") || word.starts_with("--upload") || word.starts_with("--receive")) {
        return true;
    }
    match name.as_str() {
        "filter-branch" | "difftool" | "mergetool" | "daemon" | "instaweb" | "credential" | "send-email" => {
            true
        }
        "rebase" => has(&short('x')) || has(&|word| word.starts_with("--ex")),
        "bisect" => rest.first().is_none_or(|word| word == "run" || word.contains([ANYTHING, A_NAME])),
        "submodule" => has(&|word| word == "foreach" || word == "update"),
        "grep" => has(&short('O')) || has(&|word| word.starts_with("--op")),
        "clone" => {
            has(&short('u'))
                || has(&short('c'))
                || has(&|word| word.starts_with("--c") || word.starts_with("--t"))
        }
        "fetch" | "pull" | "ls-remote" | "archive" => {
            has(&|word| word.starts_with("--up") || word.starts_with("--e"))
        }
        "hook" | "for-each-repo" | "maintenance" => true,
        "config" => {
            let mut words = rest.iter().filter(|word| !ABOUT_CONFIG.contains(&word.as_str()));
            // A value can be called like what looks, so only the first word says what is done.
            match words.next().map(String::as_str) {
                None | Some("get" | "list" | "--list" | "-l") => false,
                Some(look) if look.starts_with("--get") => false,
                Some(setting) => !is_harmless(setting) || words.any(|word| word.starts_with('-')),
            }
        }
        _ => false,
    }
}

/// Whether tar runs another program. Its long options may be cut short.
fn tar(arguments: &[String]) -> bool {
    let long = ["--to", "--checkpoint-", "--use", "--rsh", "--info", "--new"];
    let runs = |word: &String| {
        long.iter().any(|start| word.starts_with(start)) || (is_cluster(word) && word.contains(['I', 'F']))
    };
    arguments.iter().any(runs)
        || arguments.first().is_some_and(|word| !word.starts_with("--") && word.contains(['I', 'F']))
}

/// Whether a script of sed is one of the simple kind, which neither runs anything nor reads or writes another file.
fn sed_is_plain(arguments: &[String]) -> bool {
    let mut words = arguments.iter();
    let mut scripts: Vec<&str> = Vec::new();
    let mut others: Vec<&str> = Vec::new();
    while let Some(word) = words.next() {
        let flags = word.trim_start_matches(['-', 'n', 'r', 'E', 's', 'u', 'z']);
        match word.as_str() {
            long if long.starts_with("--") => match long.split_once('=') {
                Some(("--expression", script)) => scripts.push(script),
                Some(("--in-place", _)) => {}
                _ if matches!(
                    long,
                    "--quiet" | "--silent" | "--regexp-extended" | "--in-place" | "--version"
                ) => {}
                _ => return false,
            },
            short if is_cluster(short) => match flags.chars().next() {
                None | Some('i') => {}
                Some('e') if flags.len() == 1 => scripts.extend(words.next().map(String::as_str)),
                Some('e') => scripts.push(&flags[1..]),
                Some(_) => return false,
            },
            other => others.push(other),
        }
    }
    if scripts.is_empty() {
        scripts.extend(others.first());
    }
    scripts.into_iter().all(is_plain_script)
}

fn is_plain_script(script: &str) -> bool {
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches([' ', ';', '\n', '\t', '{', '}']);
        // Where it is done: numbers, the last line, and a text between slashes.
        loop {
            rest =
                rest.trim_start_matches(|letter: char| letter.is_ascii_digit() || ",$!~+ ".contains(letter));
            let Some(text) = rest.strip_prefix('/') else { break };
            let Some(after) = past(text, '/') else { return false };
            rest = after.strip_prefix('I').unwrap_or(after);
        }
        let mut letters = rest.chars();
        rest = match letters.next() {
            None => return true,
            Some('{') => {
                rest = letters.as_str();
                continue;
            }
            Some('p' | 'd' | 'q' | '=' | 'n' | 'N' | 'g' | 'G' | 'h' | 'H' | 'x' | 'D' | 'P' | 'l') => {
                letters.as_str()
            }
            Some(kind @ ('s' | 'y')) => {
                let Some(between) =
                    letters.next().filter(|letter| !matches!(*letter, '\\' | '\n' | ANYTHING | A_NAME))
                else {
                    return false;
                };
                let Some(after) = past(letters.as_str(), between).and_then(|with| past(with, between)) else {
                    return false;
                };
                let flags = |letter: char| letter.is_ascii_digit() || matches!(letter, 'g' | 'p' | 'i' | 'I');
                if kind == 's' { after.trim_start_matches(flags) } else { after }
            }
            Some(_) => return false,
        };
        rest = rest.trim_start_matches(' ');
        if !rest.is_empty() && !rest.starts_with([';', '\n', '}']) {
            return false;
        }
    }
}

/// What comes after a text that ends at this letter; None where it does not, or where that cannot be told.
fn past(text: &str, end: char) -> Option<&str> {
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            ANYTHING | A_NAME => return None,
            // In brackets the letter may be one of them, or the end.
            '[' if text[at..].split(']').next().is_some_and(|inside| inside.contains(end)) => return None,
            letter if letter == end => return Some(&text[at + letter.len_utf8()..]),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_in_order() {
        let lists: [&[&str]; 7] =
            [&RUNNERS, &WRAPPERS, &INTERPRETERS, &MODULES, &SETTINGS, &PLAIN, &ABOUT_CONFIG];
        assert!(lists.iter().all(|list| list.is_sorted()) && IN_PROJECT.is_sorted());
    }

    #[test]
    fn scripts_of_sed_are_plain_only_where_that_is_certain() {
        for script in [
            "p",
            "1,5p",
            "$d",
            "/a b/d",
            "s/a/b/",
            "s,a/b,c,gI",
            "s/a\\/e/b/;p",
            "2{s/a/b/;p}",
            "y/a/b/",
            "1!G;h;$!d",
        ] {
            assert!(is_plain_script(script), "{script}");
        }
        for script in [
            "e",
            "1e id",
            "s/a/b/e",
            "s/a/b/ge",
            "w x",
            "r x",
            "s/a/b/w x",
            "s/[/]/x/e/",
            "a\\x",
            "s/a",
            "s/a/b/pe",
        ] {
            assert!(!is_plain_script(script), "{script}");
        }
    }
}
