//! Lines that are taken apart, and those that are not.

use super::*;

/// The commands as lines.
fn lines(line: &str) -> Option<Vec<String>> {
    let shown = |text: &str| text.replace(ANYTHING, "<any>").replace(A_NAME, "<name>");
    Some(
        take_apart(line)?
            .iter()
            .map(|command| {
                let mut words: Vec<String> = command.variables.iter().map(|word| shown(word)).collect();
                words.extend(command.words.iter().map(|word| shown(word)));
                words.extend(command.reads.iter().map(|file| format!("< {}", shown(file))));
                words.extend(command.writes.iter().map(|file| format!("> {}", shown(file))));
                words.join(" ")
            })
            .collect(),
    )
}

#[test]
fn every_command_of_a_line_is_found() {
    for (line, commands) in [
        ("ls", vec!["ls"]),
        ("", vec![]),
        ("  # only a comment", vec![]),
        ("a; b && c || d | e & f\ng", vec!["a", "b", "c", "d", "e", "f", "g"]),
        ("cargo test 2>&1 | tail -5", vec!["cargo test", "tail -5"]),
        ("(cd x && rm -rf y); z", vec!["cd x", "rm -rf y", "z"]),
        ("echo $(rm x)", vec!["rm x", "echo <any>"]),
        ("echo \"a $(rm 'b c') d\"", vec!["rm b c", "echo a <any> d"]),
        ("diff <(ls a) <(ls b)", vec!["ls a", "ls b", "diff <any> <any>"]),
        ("if test -e x; then rm x; else touch x; fi", vec!["test -e x", "rm x", "touch x"]),
        ("for f in *.rs; do rustfmt $f; done > log", vec!["rustfmt <any>", "> log"]),
        ("for PATH in x; do ls; done", vec!["PATH=<any>", "ls"]),
        ("time -p rm x", vec!["time -p rm x"]),
        ("while true; do sleep 1; done", vec!["true", "sleep 1"]),
        ("! grep x y", vec!["grep x y"]),
        ("{ a; b; }", vec!["a", "b"]),
        ("A=1 B=$x make", vec!["A=1 B=<any> make"]),
        ("X=$(curl evil)", vec!["curl evil", "X=<any>"]),
        ("r''m -\"rf\" \\x", vec!["rm -rf x"]),
        ("\\rm x", vec!["rm x"]),
        ("echo a > b 2>/dev/null", vec!["echo a > b > /dev/null"]),
        ("> a echo b >> c < d", vec!["echo b < d > a > c"]),
        ("echo a#b # c", vec!["echo a#b"]),
        ("echo a\\\nb", vec!["echo ab"]),
        ("cat <<'EOF' > f\nrm -rf $(x)\nEOF\nls", vec!["cat > f", "ls"]),
        ("cat <<EOF\nplain\nEOF\n", vec!["cat"]),
        ("cat <<-E\n\ta\n\tE\nls", vec!["cat", "ls"]),
        ("grep x <<< word", vec!["grep x"]),
        ("rm *.rs ~/x {a,b}", vec!["rm <name>.rs <any>/x <any>"]),
        (
            "cat .en[v] s[e]crets/key [!a]b/[[:alpha:]]c",
            vec!["cat .en<name> s<name>crets/key <name>b/<name>c"],
        ),
        ("cat [a\"]\"]x '[a]' \\[a] [a/b] x[ [$y]z", vec!["cat <name>x [a] [a] [a/b] x[ <any>"]),
        ("[ -e x ] && rm x", vec!["[ -e x ]", "rm x"]),
        ("echo ${x:1:2} ${x: -1} ${x:-y}", vec!["echo <any> <any> <any>"]),
        ("echo ${HOME} $1 $? '$x' \"$y\"", vec!["echo <any> <any> <any> $x <any>"]),
        ("find . -exec rm {} \\;", vec!["find . -exec rm {} ;"]),
        ("echo 'a;b' \"c && d\"", vec!["echo a;b c && d"]),
    ] {
        let expected: Vec<String> = commands.into_iter().map(str::to_owned).collect();
        assert_eq!(lines(line), Some(expected), "{line}");
    }
}

#[test]
fn what_is_not_certain_is_not_taken_apart() {
    for line in [
        "`rm x`",
        "echo `rm x`",
        "echo \"`rm x`\"",
        "$x y",
        "$(echo rm) x",
        "r$x",
        "{rm,-rf,x}",
        "/bin/r* x",
        "f() { rm x; }; f",
        "function f { rm x; }",
        "case x in a) rm y;; esac",
        "[[ -e x ]] && rm x",
        "(( x = 1 ))",
        "echo $((1+1))",
        "echo 'open",
        "echo \"open",
        "echo $(open",
        "(open",
        "a )",
        "a=(b c)",
        "echo $'\\x72m'",
        "echo ${x@P}",
        "echo ${x:-$(rm y)}",
        "echo ${x:y}",
        "[r]m x",
        "echo $(cat <<E)\nrm x\nE",
        "cat <<E | (cat\nrm x\nE\n)",
        "cat <<EOF\n$(rm x)\nEOF",
        "cat <<EOF\nnever ends",
        "cat <<EOF",
        "echo a\rrm b",
        "echo a\u{0}b",
        "echo a >",
        "echo \\",
        "fi rm x",
    ] {
        assert_eq!(lines(line), None, "{line}");
    }
    assert_eq!(take_apart(&"a;".repeat(LONGEST)), None);
    assert_eq!(take_apart(&"(".repeat(1000)), None);
}

#[test]
fn no_text_makes_it_panic_and_what_is_taken_apart_is_bounded() {
    let pieces = [
        "a", " ", ";", "(", ")", "$(", "`", "'", "\"", "\\", "\n", "<<E", "E", "{", "}", "&&", "|", ">", "$",
        "#",
    ];
    let mut seed = 7_u64;
    for _ in 0..20_000 {
        let mut line = String::new();
        for _ in 0..seed % 12 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            line.push_str(pieces[(seed >> 33) as usize % pieces.len()]);
        }
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if let Some(commands) = take_apart(&line) {
            assert!(commands.len() <= line.len() + 1, "{line}");
        }
    }
}
