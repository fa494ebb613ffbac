//! The memory through its front door: what is told twice, what says otherwise, what is found and what is not.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on has failed the test that called it")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use memory::{Bundled, Draft, EmbedError, Embedder, Error, Memory, Occasion, Query};
use protocol::{Actor, EditNote, NoteId, NoteKind, NoteScope, NoteSource, Remembered, SessionId, Timestamp};

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn open(&self) -> Memory {
        self.open_with(Box::new(Bundled))
    }

    fn open_with(&self, embedder: Box<dyn Embedder>) -> Memory {
        Memory::open(&self.dir.path().join("memory.db"), embedder).unwrap()
    }
}

fn at(date: &str) -> Timestamp {
    format!("{date}T12:00:00Z").parse().unwrap()
}

fn shop() -> NoteScope {
    NoteScope::repository("https://forge.example/shop.git")
}

fn by_person(text: &str) -> Draft {
    Draft {
        scope: shop(),
        kind: NoteKind::Fact,
        subject: None,
        text: text.to_owned(),
        source: NoteSource::by(Actor::user("ana")),
        at: at("2026-01-01"),
        once: None,
    }
}

fn by_agent(text: &str) -> Draft {
    let session = Some(SessionId::from_u128(1));
    let source = NoteSource { author: Actor::agent("model"), session, seq: Some(7), turn: None };
    Draft { source, ..by_person(text) }
}

fn about(subject: &str, draft: Draft) -> Draft {
    Draft { subject: Some(subject.to_owned()), ..draft }
}

fn found(memory: &Memory, text: &str, occasion: Occasion, now: &str) -> Vec<String> {
    let scopes = [shop()];
    let query = Query { text, scopes: &scopes, kind: None, limit: 5, occasion, now: at(now) };
    memory.recall(&query).unwrap().found.into_iter().map(|found| found.note.text).collect()
}

fn id_of(remembered: &Remembered) -> NoteId {
    match remembered {
        Remembered::New { id } | Remembered::Merged { id } | Remembered::Replaced { id, .. } => *id,
        Remembered::Refused { by } => *by,
    }
}

#[test]
fn what_is_remembered_is_there_after_a_restart() {
    let place = Place::new();
    let draft = about("package manager", by_agent("The storefront is installed with pnpm."));
    let remembered = place.open().remember(draft.clone()).unwrap();
    let Remembered::New { id } = remembered else { panic!("{remembered:?}") };
    let memory = place.open();
    let note = memory.show(id).unwrap();
    assert_eq!((note.text, note.source, note.made_at), (draft.text, draft.source, draft.at));
    assert_eq!(
        found(&memory, "install a package in the storefront", Occasion::Offer, "2026-01-02"),
        ["The storefront is installed with pnpm."]
    );
}

#[test]
fn what_is_told_twice_is_one_note() {
    let place = Place::new();
    let memory = place.open();
    let first = memory.remember(by_agent("Run the backend's tests with cargo nextest.")).unwrap();
    let later = Draft { at: at("2026-02-01"), ..by_agent("The backend's tests are run with cargo nextest") };
    let again = memory.remember(later).unwrap();
    assert_eq!(again, Remembered::Merged { id: id_of(&first) });
    let notes = memory.list(None).unwrap();
    assert_eq!(notes.len(), 1);
    assert_eq!(notes[0].text, "The backend's tests are run with cargo nextest");
    assert_eq!((notes[0].made_at, notes[0].changed_at), (at("2026-01-01"), at("2026-02-01")));
    // The same words about another repository are another note.
    let elsewhere = Draft {
        scope: NoteScope::environment("other"),
        ..by_agent("The backend's tests are run with cargo nextest")
    };
    assert!(matches!(memory.remember(elsewhere).unwrap(), Remembered::New { .. }));
}

#[test]
fn what_says_otherwise_replaces() {
    let place = Place::new();
    let memory = place.open();
    let npm = memory.remember(about("package manager", by_agent("Packages come from npm"))).unwrap();
    let pnpm = memory.remember(about("Package Manager", by_agent("pnpm is used for packages"))).unwrap();
    assert_eq!(pnpm, Remembered::Replaced { id: id_of(&pnpm), old: vec![id_of(&npm)] });
    let node = memory.remember(by_agent("The web front end needs Node 20")).unwrap();
    let newer = memory.remember(by_agent("The web front end needs Node 22.")).unwrap();
    assert_eq!(newer, Remembered::Replaced { id: id_of(&newer), old: vec![id_of(&node)] });
    let texts = found(&memory, "packages npm node web front end", Occasion::Asked, "2026-01-02");
    assert!(!texts.iter().any(|text| text.contains("Node 20") || text.contains("from npm")), "{texts:?}");
    assert_eq!(memory.show(id_of(&node)).unwrap().replaced_by, Some(id_of(&newer)));
    let edit = EditNote { text: Some("x".to_owned()), ..EditNote::default() };
    let error = memory.edit(id_of(&node), edit, Actor::user("ana"), at("2026-01-03")).unwrap_err();
    assert_eq!(error, Error::Replaced(id_of(&node), id_of(&newer)));
}

#[derive(serde::Deserialize)]
struct Pairs {
    same: Vec<Vec<String>>,
    contrary: Vec<Vec<String>>,
    other: Vec<Vec<String>>,
}

/// `pairs.toml`, each pair in both orders, and each by the same author.
#[test]
fn what_is_the_same_becomes_one_what_says_otherwise_replaces_and_all_else_stays() {
    let pairs: Pairs = toml::from_str(include_str!("pairs.toml")).unwrap();
    let place = Place::new();
    let memory = place.open();
    let mut wrong = Vec::new();
    let mut number = 0;
    let sets = [("same", pairs.same), ("contrary", pairs.contrary), ("other", pairs.other)];
    for (wanted, pair) in
        sets.iter().flat_map(|(wanted, pairs)| pairs.iter().map(move |pair| (*wanted, pair)))
    {
        let (one, other) = match pair.as_slice() {
            [one, other] => (("", one.as_str()), ("", other.as_str())),
            [about, one, about_other, other] => {
                ((about.as_str(), one.as_str()), (about_other.as_str(), other.as_str()))
            }
            _ => panic!("{pair:?}"),
        };
        for (old, new) in [(one, other), (other, one)] {
            number += 1;
            let draft = |(subject, text): (&str, &str)| Draft {
                scope: NoteScope::environment(format!("pair-{number}")),
                ..about(subject, by_agent(text))
            };
            memory.remember(draft(old)).unwrap();
            let became = match memory.remember(draft(new)).unwrap() {
                Remembered::Merged { .. } => "same",
                Remembered::Replaced { .. } => "contrary",
                Remembered::New { .. } => "other",
                Remembered::Refused { .. } => "refused",
            };
            if became != wanted {
                wrong.push(format!("{became}, not {wanted}: {old:?} then {new:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {number} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_a_removed_note_had_replaced_counts_again() {
    let place = Place::new();
    let memory = place.open();
    let [first, second, third] = ["30 s", "60 s", "90 s"]
        .map(|time| id_of(&memory.remember(by_agent(&format!("The cache expires after {time}"))).unwrap()));
    let ask = || found(&memory, "when does the cache expire", Occasion::Asked, "2026-01-02");
    assert_eq!(ask(), ["The cache expires after 90 s"]);
    memory.remove(second).unwrap();
    assert_eq!(memory.show(first).unwrap().replaced_by, Some(third), "what replaced it is replaced itself");
    memory.remove(third).unwrap();
    assert_eq!(memory.show(first).unwrap().replaced_by, None);
    assert_eq!(ask(), ["The cache expires after 30 s"]);
    let edit = EditNote { text: Some("The cache expires after 45 s".to_owned()), ..EditNote::default() };
    memory.edit(first, edit, Actor::user("ana"), at("2026-01-03")).unwrap();
    assert_eq!(ask(), ["The cache expires after 45 s"]);
}

#[test]
fn two_errors_that_differ_in_a_number_stay_two() {
    let place = Place::new();
    let memory = place.open();
    for text in
        ["The import fails with 404 when the key is old", "The import fails with 403 when the key is old"]
    {
        let draft = Draft { kind: NoteKind::ErrorPattern, ..by_agent(text) };
        assert!(matches!(memory.remember(draft).unwrap(), Remembered::New { .. }));
    }
}

#[test]
fn an_agent_does_not_overrule_a_person() {
    let place = Place::new();
    let memory = place.open();
    let person = memory.remember(by_person("Do not deploy on Fridays")).unwrap();
    let agent = memory.remember(by_agent("Deploy on Fridays")).unwrap();
    assert_eq!(agent, Remembered::Refused { by: id_of(&person) });
    let told = memory.remember(by_agent("Do not ever deploy on Fridays")).unwrap();
    assert_eq!(told, Remembered::Merged { id: id_of(&person) });
    assert_eq!(memory.show(id_of(&person)).unwrap().text, "Do not deploy on Fridays");
    let changed = memory.remember(by_person("Deploy on Fridays")).unwrap();
    assert_eq!(changed, Remembered::Replaced { id: id_of(&changed), old: vec![id_of(&person)] });
    let command = memory.remember(by_person("The test command is npm test")).unwrap();
    for other in ["The test command is pnpm test", "Tests are run with `make check`"] {
        let refused = memory.remember(about("test command", by_agent(other))).unwrap();
        assert_eq!(refused, Remembered::Refused { by: id_of(&command) }, "{other}");
    }
    assert_eq!(memory.show(id_of(&command)).unwrap().text, "The test command is npm test");
}

#[test]
fn other_scopes_are_not_seen() {
    let place = Place::new();
    let memory = place.open();
    let secret = Draft { scope: NoteScope::person("jonas"), ..by_person("Jonas wants small pull requests") };
    memory.remember(secret).unwrap();
    assert_eq!(found(&memory, "small pull requests for Jonas", Occasion::Asked, "2026-01-02"), [""; 0]);
    assert_eq!(memory.list(Some(&[shop()])).unwrap(), []);
    assert_eq!(memory.list(Some(&[NoteScope::person("jonas")])).unwrap().len(), 1);
}

#[test]
fn a_faded_note_is_found_only_by_who_asks() {
    let place = Place::new();
    let memory = place.open();
    let text = "The nightly import needs the variable SUPPLIER_KEY";
    let id = id_of(&memory.remember(by_agent(text)).unwrap());
    let ask = "the nightly import says SUPPLIER_KEY is missing";
    assert_eq!(found(&memory, ask, Occasion::Offer, "2026-01-02"), [text]);
    assert_eq!(found(&memory, ask, Occasion::Offer, "2027-01-02"), [""; 0]);
    assert_eq!(found(&memory, ask, Occasion::Asked, "2027-01-02"), [text]);
    for _ in 0..2 {
        memory.used(&[id, id], "turn 1", at("2026-12-31")).unwrap();
        memory.useful(&[id], "turn 1", at("2026-12-31")).unwrap();
    }
    assert_eq!(found(&memory, ask, Occasion::Offer, "2027-01-02"), [text]);
    let note = memory.show(id).unwrap();
    assert_eq!((note.uses, note.useful, note.used_at), (1, 1, Some(at("2026-12-31"))));
}

#[test]
fn notes_are_edited_and_removed() {
    let place = Place::new();
    let memory = place.open();
    let id = id_of(&memory.remember(by_agent("Metrics are on port 9100")).unwrap());
    let edit = EditNote {
        text: Some("Prometheus scrapes port 9200".to_owned()),
        kind: Some(NoteKind::Decision),
        subject: Some("metrics port".to_owned()),
    };
    let note = memory.edit(id, edit, Actor::user("ana"), at("2026-03-01")).unwrap();
    assert_eq!(note, memory.show(id).unwrap());
    assert_eq!(note.source.author, Actor::user("ana"));
    assert_eq!(note.source.session, Some(SessionId::from_u128(1)));
    assert_eq!(found(&memory, "prometheus", Occasion::Asked, "2026-03-02").len(), 1);
    memory.remove(id).unwrap();
    assert_eq!(memory.remove(id), Err(Error::NoNote(id)));
    assert_eq!(memory.show(id), Err(Error::NoNote(id)));
    assert_eq!(found(&memory, "prometheus", Occasion::Asked, "2026-03-02"), [""; 0]);
    memory.used(&[id], "turn 1", at("2026-03-02")).unwrap();
    assert_eq!(memory.list(None).unwrap(), []);
}

#[test]
fn notes_are_found_in_scripts_without_spaces() {
    let place = Place::new();
    let memory = place.open();
    let chinese = "部署之前必须先运行数据库迁移脚本";
    let japanese = "決済サービスのテストはモックサーバーが必要です";
    for text in [chinese, japanese, "The storefront is installed with pnpm."] {
        memory.remember(by_person(text)).unwrap();
    }
    for (asked, wanted) in [
        ("部署之前数据库迁移脚本失败了", chinese),
        ("決済サービスのテストがモックサーバーで失敗する", japanese),
    ] {
        assert_eq!(found(&memory, asked, Occasion::Offer, "2026-01-02"), [wanted], "{asked}");
    }
    assert_eq!(found(&memory, "数据库迁移", Occasion::Asked, "2026-01-02")[0], chinese);
    for other in ["请把按钮的颜色改成蓝色", "画像の読み込みを速くしてください", "请修复登录页面的错误"]
    {
        assert_eq!(found(&memory, other, Occasion::Offer, "2026-01-02"), [""; 0], "{other}");
    }
}

/// Whoever has the file of a memory does not find in it what was forgotten.
#[test]
fn what_is_removed_is_not_in_the_file_any_more() {
    let place = Place::new();
    let memory = place.open();
    for n in 0..40 {
        memory.remember(by_agent(&format!("Worker queue_{n} is drained by hand"))).unwrap();
    }
    let id = id_of(&memory.remember(by_person("The depot in Zanzibar closes in winter")).unwrap());
    for n in 40..80 {
        memory.remember(by_agent(&format!("Worker queue_{n} is drained by hand"))).unwrap();
    }
    let written = || {
        let files = std::fs::read_dir(place.dir.path()).unwrap().map(|entry| entry.unwrap().path());
        let bytes: Vec<u8> = files.flat_map(|path| std::fs::read(path).unwrap()).collect();
        let has =
            |word: &str| bytes.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word.as_bytes()));
        has("zanzibar")
    };
    assert!(written(), "this would see nothing");
    memory.remove(id).unwrap();
    assert!(!written());
    assert_eq!(memory.list(None).unwrap().len(), 80);
    assert_eq!(found(&memory, "worker queue_70 drained", Occasion::Asked, "2026-01-02").len(), 5);
}

#[test]
fn what_is_no_note_is_refused() {
    let place = Place::new();
    let memory = place.open();
    assert_eq!(memory.remember(by_person(" …\n")), Err(Error::Empty));
    assert_eq!(memory.remember(by_person(&"long ".repeat(500))), Err(Error::TooLong(2499)));
    assert_eq!(memory.remember(about("two\nlines", by_person("text"))), Err(Error::Subject));
    assert_eq!(found(&memory, "", Occasion::Asked, "2026-01-01"), [""; 0]);
    assert_eq!(found(&memory, "\" OR * NEAR( \0", Occasion::Asked, "2026-01-01"), [""; 0]);
}

#[test]
fn a_long_prompt_finds_what_one_sentence_of_it_is_about() {
    let place = Place::new();
    let memory = place.open();
    let text = "Stripe webhooks need the raw body for the signature check";
    memory.remember(by_person(text)).unwrap();
    let filler = "The gallery should have larger thumbnails with rounded corners and a soft shadow below. ";
    let prompt = format!(
        "{}The signature check of the Stripe webhooks fails with the parsed body. {}",
        filler.repeat(4),
        filler.repeat(4)
    );
    assert_eq!(found(&memory, &prompt, Occasion::Offer, "2026-01-02"), [text]);
    assert_eq!(found(&memory, &filler.repeat(8), Occasion::Offer, "2026-01-02"), [""; 0]);
}

/// An endpoint that can be down, with vectors of its own.
struct Endpoint {
    up: Arc<AtomicBool>,
}

impl Embedder for Endpoint {
    fn name(&self) -> &str {
        "endpoint-1"
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        if !self.up.load(Ordering::SeqCst) {
            let detail = "connection refused; is it running?".to_owned();
            return Err(EmbedError { model: self.name().to_owned(), detail });
        }
        Ok(texts.iter().map(|text| vec![if text.contains("cat") { 1.0 } else { 0.0 }, 0.0, 1.0]).collect())
    }
}

#[test]
fn without_its_model_notes_are_found_by_words_and_later_by_meaning() {
    let place = Place::new();
    place.open().remember(by_person("A cat sleeps on the printer")).unwrap();
    let up = Arc::new(AtomicBool::new(false));
    let memory = place.open_with(Box::new(Endpoint { up: up.clone() }));
    memory.remember(by_person("The printer is on the third floor")).unwrap();
    let scopes = [shop()];
    let (text, now) = ("printer", at("2026-01-02"));
    let query = Query { text, scopes: &scopes, kind: None, limit: 5, occasion: Occasion::Asked, now };
    let recalled = memory.recall(&query).unwrap();
    assert_eq!(recalled.found.len(), 2);
    assert!(recalled.words_only.unwrap().to_string().contains("connection refused"), "it is said");
    assert_eq!(memory.embed_missing().unwrap(), 0);
    up.store(true, Ordering::SeqCst);
    assert_eq!(memory.embed_missing().unwrap(), 2);
    assert_eq!(memory.embed_missing().unwrap(), 0);
    assert_eq!(found(&memory, "cat", Occasion::Asked, "2026-01-02")[0], "A cat sleeps on the printer");
}

#[test]
fn what_is_asked_for_twice_under_one_name_is_done_once() {
    let place = Place::new();
    let once = |text: &str, name: &str| Draft { once: Some(name.to_owned()), ..by_agent(text) };
    let first = place.open().remember(once("Metrics are on port 9100", "call 1")).unwrap();
    // Another server, which does not know what the one before it did.
    let memory = place.open();
    assert_eq!(memory.remember(once("Metrics are on port 9100", "call 1")).unwrap(), first);
    let newer = memory.remember(once("Metrics are on port 9200", "call 2")).unwrap();
    assert_eq!(newer, Remembered::Replaced { id: id_of(&newer), old: vec![id_of(&first)] });
    // A person removes it: that the call is done again does not bring it back.
    memory.remove(id_of(&newer)).unwrap();
    assert_eq!(memory.remember(once("Metrics are on port 9200", "call 2")).unwrap(), newer);
    assert_eq!(memory.list(None).unwrap().len(), 1);
    let person = memory.remember(by_person("Do not deploy on Fridays")).unwrap();
    for _ in 0..2 {
        let refused = memory.remember(once("Deploy on Fridays", "call 3")).unwrap();
        assert_eq!(refused, Remembered::Refused { by: id_of(&person) });
    }
}

#[test]
fn no_secret_is_remembered_by_anybody() {
    let place = Place::new();
    let memory = place.open();
    let key = "The deploy key is ghp_a1b2c3d4e5f6g7h8i9j0";
    for draft in [by_agent(key), by_person(key), about("sk-a1b2c3d4e5f6g7h8i9j0", by_agent("A key"))] {
        let error = memory.remember(draft).unwrap_err();
        assert!(matches!(error, Error::Secret(_)) && !error.to_string().contains("a1b2"), "{error}");
    }
    let id = id_of(&memory.remember(by_person("The deploy key is in the vault")).unwrap());
    let edit = EditNote { text: Some(key.to_owned()), ..EditNote::default() };
    assert!(matches!(memory.edit(id, edit, Actor::user("ana"), at("2026-01-02")), Err(Error::Secret(_))));
}

#[test]
fn one_kind_can_be_asked_for() {
    let place = Place::new();
    let memory = place.open();
    let error = "SQLX_OFFLINE errors: run cargo sqlx prepare";
    memory.remember(Draft { kind: NoteKind::ErrorPattern, ..by_agent(error) }).unwrap();
    memory.remember(by_agent("Offline builds of sqlx errors are rare")).unwrap();
    let scopes = [shop()];
    let query = |kind| {
        let query = Query {
            text: "sqlx errors offline",
            scopes: &scopes,
            kind,
            limit: 5,
            occasion: Occasion::Asked,
            now: at("2026-01-02"),
        };
        memory.recall(&query).unwrap().found.len()
    };
    assert_eq!(
        (query(None), query(Some(NoteKind::ErrorPattern)), query(Some(NoteKind::Decision))),
        (2, 1, 0)
    );
}

#[test]
fn many_may_write_at_once() {
    let place = Place::new();
    let memory = place.open();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for number in 0..5 {
                    memory.remember(by_agent(&format!("Worker queue_{number} is drained by hand"))).unwrap();
                }
            });
        }
    });
    assert_eq!(memory.list(None).unwrap().len(), 5);
}
