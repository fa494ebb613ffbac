//! The words by which compilers tell how bad something is, in the languages that gcc and javac speak.

use protocol::Severity;

const ERRORS: &[&str] = &[
    "error",
    "fatal error",
    "fatal",
    "err",
    "internal compiler error",
    "Fehler",
    "schwerwiegender Fehler",
    "erreur",
    "erreur fatale",
    "error fatal",
    "errore",
    "errore irreversibile",
    "erro",
    "erro fatal",
    "błąd",
    "fout",
    "fatale fout",
    "fejl",
    "fatal fejl",
    "fel",
    "ödesdigert fel",
    "virhe",
    "vakava virhe",
    "greška",
    "fatalna greška",
    "hata",
    "ölümcül hata",
    "lỗi",
    "lỗi nghiêm trọng",
    "σφάλμα",
    "μοιραίο σφάλμα",
    "ошибка",
    "фатальная ошибка",
    "помилка",
    "критична помилка",
    "грешка",
    "кобна грешка",
    "エラー",
    "致命的エラー",
    "错误",
    "致命错误",
    "錯誤",
    "嚴重錯誤",
    "오류",
];

const WARNINGS: &[&str] = &[
    "warning",
    "warn",
    "Warnung",
    "attention",
    "avertissement",
    "aviso",
    "avviso",
    "advertencia",
    "ostrzeżenie",
    "let op",
    "waarschuwing",
    "advarsel",
    "varning",
    "varoitus",
    "upozorenje",
    "peringatan",
    "UYARI",
    "uyarı",
    "cảnh báo",
    "προειδοποίηση",
    "предупреждение",
    "попередження",
    "упозорење",
    "警告",
    "경고",
];

const NOTES: &[&str] = &[
    "note",
    "info",
    "information",
    "help",
    "hint",
    "debug",
    "remark",
    "Anmerkung",
    "Hinweis",
    "nota",
    "remarque",
    "bemærk",
    "huom",
    "napomena",
    "catatan",
    "anm",
    "bilgi",
    "ghi chú",
    "σημείωση",
    "замечание",
    "зауваження",
    "напомена",
    "備考",
    "附注",
    "附註",
    "注",
    "ノート",
];

/// The severity that the text begins with, and what follows its colon.
pub(crate) fn leading(text: &str) -> Option<(Severity, &str)> {
    let end = text.find([':', '：'])?;
    let (word, rest) = text.split_at(end);
    // The longest of them has 24 bytes; a whole sentence before a colon is none.
    if word.len() > 48 {
        return None;
    }
    let rest = rest.trim_start_matches([':', '：', ' ']);
    Some((severity(word.trim())?, rest))
}

/// The severity that a word stands for.
pub(crate) fn severity(word: &str) -> Option<Severity> {
    let lists = [(ERRORS, Severity::Error), (WARNINGS, Severity::Warning), (NOTES, Severity::Note)];
    let known =
        |list: &[&str]| list.contains(&word) || list.iter().any(|known| known.eq_ignore_ascii_case(word));
    lists.into_iter().find(|(list, _)| known(list)).map(|(_, severity)| severity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn severities_are_known_in_many_languages() {
        for (text, severity, rest) in [
            ("error: x", Severity::Error, "x"),
            ("Schwerwiegender Fehler: x.h: fehlt", Severity::Error, "x.h: fehlt"),
            ("erreur fatale: x", Severity::Error, "x"),
            ("警告：x", Severity::Warning, "x"),
            ("警告:[rawtypes] x", Severity::Warning, "[rawtypes] x"),
            ("let op: x", Severity::Warning, "x"),
            ("замечание: x", Severity::Note, "x"),
        ] {
            assert_eq!(leading(text), Some((severity, rest)), "{text}");
        }
        assert_eq!(leading("listening: x"), None);
        assert_eq!(leading("no colon"), None);
    }
}
