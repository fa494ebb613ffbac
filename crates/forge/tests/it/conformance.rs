//! One story, told to every forge: a pull request is opened once whatever breaks, found, changed, talked about, marked,
//! checked, merged or closed; and what goes wrong is said in words that help. The fake forge holds each client to the
//! published schemas.

use std::sync::Arc;
use std::time::Duration;

use forge::gitea::Gitea;
use forge::github::GitHub;
use forge::gitlab::GitLab;
use forge::{
    Change, CheckState, Comment, Forge, Forges, Marks, NewPullRequest, Person, PullRequest, Readiness,
    Refusal, Repository, State, Token, open_once, state_of,
};
use testkit::forge::{Fault, Kind, On, Server};
use testkit::repo::Repo;

const TOKEN: &str = "forge-token-4711";

fn client(server: &Server, kind: Kind, token: &str) -> Arc<dyn Forge> {
    let (api, token) = (server.api_of(kind), Some(Token::new(token)));
    match kind {
        Kind::GitHub => Arc::new(GitHub::new(&api, token, "FORGE_TOKEN").unwrap()),
        Kind::GitLab => Arc::new(GitLab::new(&api, token, "FORGE_TOKEN").unwrap()),
        Kind::Gitea => Arc::new(Gitea::new(&api, token, "FORGE_TOKEN").unwrap()),
    }
}

/// A forge with a repository that has a branch.
struct Scene {
    server: Server,
    repo: Repo,
    forge: Arc<dyn Forge>,
    wanted: NewPullRequest,
}

impl Scene {
    async fn new(kind: Kind) -> Self {
        let server = Server::start(TOKEN).await;
        let repo = Repo::plain();
        server.serve("acme", "shop", &repo);
        let forge = client(&server, kind, TOKEN);
        let mut forges = Forges::default();
        forges.add(server.url(), Arc::clone(&forge)).unwrap();
        let (_, repository) = forges.of(&server.git_url("acme", "shop")).unwrap();
        let branch = "slipway/fix&more".to_owned();
        let wanted = NewPullRequest {
            repository,
            commit: repo.commit(&branch, &[("answer.txt", "42\n")]),
            branch,
            base: "main".to_owned(),
            title: "Mend the answer".to_owned(),
            body: "It was 41.".to_owned(),
            readiness: Readiness::Ready,
            person: None,
        };
        Self { server, repo, forge, wanted }
    }

    async fn all() -> Vec<(Kind, Self)> {
        let mut all = Vec::new();
        for kind in Kind::ALL {
            all.push((kind, Self::new(kind).await));
        }
        all
    }

    async fn open(&self) -> PullRequest {
        self.forge.open(&self.wanted).await.unwrap().unwrap()
    }

    fn repository(&self) -> &Repository {
        &self.wanted.repository
    }

    /// The only pull request, as the forge has it.
    fn only(&self) -> testkit::forge::PullRequest {
        let [pull] = &self.server.pull_requests()[..] else { panic!("one: {:?}", self.server.entries()) };
        pull.clone()
    }

    /// The client asked for nothing that the real forge would not have understood.
    fn understood(&self, kind: Kind) {
        assert_eq!(self.server.violations(), Vec::<String>::new(), "{kind:?}");
    }
}

fn last_words(refusal: Refusal) -> String {
    match refusal {
        Refusal::Final { message } => message,
        Refusal::Later { .. } => panic!("it would be tried again: {refusal}"),
    }
}

#[tokio::test]
async fn it_is_opened_once_whatever_breaks() {
    for (kind, scene) in Scene::all().await {
        for fault in [Fault::Refuse(502), Fault::Limit(7), Fault::ActThenRefuse(502), Fault::ActThenDrop] {
            scene.server.fail(On::Open, fault);
        }
        scene.server.fail(On::LookUp, Fault::Refuse(503));
        let (mut asked, mut refusals) = (false, Vec::new());
        let opened = loop {
            match open_once(&*scene.forge, &scene.wanted, &mut asked).await {
                Ok(there) => break there,
                Err(refusal @ Refusal::Later { .. }) => refusals.push((refusal, asked)),
                Err(refusal) => panic!("{kind:?}: {refusal}"),
            }
            assert!(refusals.len() < 9, "{kind:?}: {refusals:?}");
        };
        let doubts: Vec<bool> = refusals.iter().map(|(_, asked)| *asked).collect();
        // A look that failed; an error before the act; too many requests; an error after the act.
        assert_eq!(doubts, [false, true, false, true], "{kind:?}: {refusals:?}");
        assert!(
            matches!(refusals[2].0, Refusal::Later { wait: Some(wait), .. } if wait == Duration::from_secs(7)),
            "{kind:?}: {refusals:?}"
        );
        let there = scene.only();
        assert_eq!((opened.number, opened.state), (there.number, State::Open), "{kind:?}");
        assert_eq!((there.title.as_str(), there.body.as_str()), ("Mend the answer", "It was 41."));
        assert!(opened.url.contains("/acme/shop/"), "{}", opened.url);
        // Asking for it again says that it is there; so does the connection that breaks off.
        assert!(scene.forge.open(&scene.wanted).await.is_err(), "{kind:?}: the last fault is left");
        assert_eq!(scene.forge.open(&scene.wanted).await.unwrap(), None, "{kind:?}");
        scene.only();
        scene.understood(kind);
    }
}

#[tokio::test]
async fn it_is_changed_and_goes_from_draft_to_ready_and_back() {
    for (kind, mut scene) in Scene::all().await {
        scene.wanted.readiness = Readiness::Draft;
        let opened = scene.open().await;
        assert_eq!(
            (opened.readiness, opened.title.as_str()),
            (Readiness::Draft, "Mend the answer"),
            "{kind:?}"
        );
        assert!(scene.only().draft, "{kind:?}");
        let (forge, repository) = (&scene.forge, scene.repository());
        let change = |readiness| Change { readiness: Some(readiness), ..Change::default() };
        for readiness in [Readiness::Ready, Readiness::Ready, Readiness::Draft] {
            let changed = forge.update(repository, opened.number, &change(readiness)).await.unwrap();
            assert_eq!(
                (changed.readiness, changed.title.as_str()),
                (readiness, "Mend the answer"),
                "{kind:?}"
            );
            assert_eq!(scene.only().draft, readiness == Readiness::Draft, "{kind:?}");
        }
        let texts = Change {
            title: Some("Mend all answers".to_owned()),
            body: Some("All were wrong.".to_owned()),
            readiness: None,
        };
        let changed = forge.update(repository, opened.number, &texts).await.unwrap();
        assert_eq!(
            (changed.readiness, changed.title.as_str()),
            (Readiness::Draft, "Mend all answers"),
            "{kind:?}"
        );
        assert_eq!(scene.only().body, "All were wrong.");
        assert!(scene.only().draft, "{kind:?}: a new title leaves a draft one");
        let found = forge.look_up(&scene.wanted).await.unwrap().unwrap();
        assert_eq!(found, changed, "{kind:?}");
        scene.understood(kind);
    }
}

#[tokio::test]
async fn a_comment_is_said_once_and_marks_add_up() {
    for (kind, scene) in Scene::all().await {
        scene.server.let_in("bea", "bea-token");
        scene.server.let_in("cem", "cem-token");
        let number = scene.open().await.number;
        let (forge, repository) = (&scene.forge, scene.repository());
        let comment =
            Comment { key: "ses_1.trn_2".to_owned(), text: "Checks passed.".to_owned(), thread: None };
        scene.server.fail(On::Comment, Fault::ActThenRefuse(500));
        let refusal = forge.comment(repository, number, &comment).await.unwrap_err();
        assert!(matches!(refusal, Refusal::Later { doubtful: true, .. }), "{kind:?}: {refusal}");
        forge.comment(repository, number, &comment).await.unwrap();
        let other = Comment { key: "ses_1.trn_3".to_owned(), ..comment };
        forge.comment(repository, number, &other).await.unwrap();
        let said: Vec<String> = scene.only().comments.into_iter().map(|said| said.text).collect();
        assert_eq!(said.len(), 2, "{kind:?}: {said:?}");
        assert!(said.iter().all(|text| text.starts_with("Checks passed.")), "{said:?}");

        let marks = |label: &str, who: &str| Marks {
            labels: vec!["slipway".to_owned(), label.to_owned()],
            reviewers: vec![who.to_owned()],
        };
        forge.mark(repository, number, &marks("bug", "bea")).await.unwrap();
        forge.mark(repository, number, &marks("size: small", "cem")).await.unwrap();
        let there = scene.only();
        assert_eq!(there.labels, ["slipway", "bug", "size: small"], "{kind:?}");
        assert_eq!(there.reviewers, ["bea", "cem"], "{kind:?}");
        let nobody = Marks { labels: Vec::new(), reviewers: vec!["nobody".to_owned()] };
        last_words(forge.mark(repository, number, &nobody).await.unwrap_err());
        assert_eq!(scene.only().reviewers, ["bea", "cem"], "{kind:?}");
        forge.mark(repository, number, &Marks::default()).await.unwrap();
        scene.understood(kind);
    }
}

#[tokio::test]
async fn who_cannot_review_keeps_nobody_else_from_it() {
    for (kind, mut scene) in Scene::all().await {
        for name in ["ann", "bea", "cem"] {
            scene.server.let_in(name, &format!("{name}-token"));
        }
        // Nobody reviews their own, and that is no news.
        scene.wanted.person = Some(Person { name: "Ann".to_owned(), token: Some(Token::new("ann-token")) });
        let number = scene.open().await.number;
        assert_eq!(scene.only().author, "ann", "{kind:?}");
        let (forge, repository) = (&scene.forge, scene.repository());
        let marks = |names: &[&str]| Marks {
            labels: vec!["bug".to_owned()],
            reviewers: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        forge.mark(repository, number, &marks(&["bea", "Ann"])).await.unwrap();
        assert_eq!(
            (scene.only().reviewers, scene.only().labels),
            (vec!["bea".to_owned()], vec!["bug".to_owned()])
        );
        forge.mark(repository, number, &marks(&["ann"])).await.unwrap();
        let refused = forge.mark(repository, number, &marks(&["nobody", "ann", "cem"])).await.unwrap_err();
        let said = last_words(refused);
        assert!(said.contains("the reviewer nobody") && !said.contains("ann"), "{kind:?}: {said}");
        assert_eq!(scene.only().reviewers, ["bea", "cem"], "{kind:?}");
        scene.understood(kind);
    }
}

#[tokio::test]
async fn checks_are_told() {
    for (kind, scene) in Scene::all().await {
        let (repository, commit) = (scene.repository(), scene.wanted.commit.as_str());
        let checks = || async { scene.forge.checks(repository, commit).await.unwrap() };
        assert_eq!(state_of(&checks().await), None, "{kind:?}");
        for (name, state, all) in [
            ("build", "success", CheckState::Passed),
            ("ci/lint", "pending", CheckState::Pending),
            ("test", "failure", CheckState::Failed),
            ("ci/lint", "failure", CheckState::Failed),
            ("test", "success", CheckState::Failed),
            ("ci/lint", "success", CheckState::Passed),
        ] {
            scene.server.report("acme/shop", commit, name, state);
            assert_eq!(state_of(&checks().await), Some(all), "{kind:?}: {name} {state}");
        }
        let mut names: Vec<String> = checks().await.into_iter().map(|check| check.name).collect();
        names.sort();
        assert_eq!(names, ["build", "ci/lint", "test"], "{kind:?}");
        scene.understood(kind);
    }
}

#[tokio::test]
async fn every_check_is_told_and_those_first_that_failed() {
    for (kind, scene) in Scene::all().await {
        let (repository, commit) = (scene.repository(), scene.wanted.commit.as_str());
        for number in 0..260 {
            let of = if number % 2 == 0 { "unit" } else { "ci/lint" };
            scene.server.report("acme/shop", commit, &format!("{of}-{number}"), "success");
        }
        scene.server.report("acme/shop", commit, "ci/last", "failure");
        scene.server.report("acme/shop", commit, "last", "failure");
        let checks = scene.forge.checks(repository, commit).await.unwrap();
        assert_eq!(checks.len(), 262, "{kind:?}");
        let mut first: Vec<&str> = checks[..2].iter().map(|check| check.name.as_str()).collect();
        first.sort_unstable();
        assert_eq!(first, ["ci/last", "last"], "{kind:?}");
        assert!(checks[2..].iter().all(|check| check.state == CheckState::Passed), "{kind:?}");
        for number in 0..3000 {
            let of = if number % 2 == 0 { "more" } else { "ci/more" };
            scene.server.report("acme/shop", commit, &format!("{of}-{number}"), "success");
            scene.server.report("acme/shop", commit, &format!("{of}-{number}/again"), "success");
        }
        // Nobody takes those that were read for all.
        let checks = scene.forge.checks(repository, commit).await.unwrap();
        let last = checks.last().unwrap();
        assert!(last.name.contains("not read") && last.state == CheckState::Pending, "{kind:?}: {last:?}");
        scene.understood(kind);
    }
}

#[tokio::test]
async fn long_texts_of_others_are_in_nobodys_way() {
    for (kind, scene) in Scene::all().await {
        let long = "\u{e4}".repeat(300_000);
        let branches: Vec<String> = (0..3).map(|number| format!("other-{number}")).collect();
        for branch in &branches {
            scene.repo.commit(branch, &[("other.txt", branch)]);
        }
        // Together they are more than is read of one answer.
        scene.server.fill("acme/shop", &branches, &long, 120);
        assert_eq!(scene.forge.look_up(&scene.wanted).await.unwrap(), None, "{kind:?}");
        let opened = scene.open().await;
        scene.server.close(opened.number);
        let found = scene.forge.look_up(&scene.wanted).await.unwrap().unwrap();
        assert_eq!((found.number, found.state), (opened.number, State::Closed), "{kind:?}");

        // Gitea has no pages of comments.
        for _ in 0..(if kind == Kind::Gitea { 9 } else { 130 }) {
            scene.server.say(opened.number, "bea", &long[..200_000]);
        }
        let comment = Comment { key: "ses_1.trn_2".to_owned(), text: "Done.".to_owned(), thread: None };
        for _ in 0..2 {
            scene.forge.comment(scene.repository(), opened.number, &comment).await.unwrap();
        }
        let ours = |pull: &testkit::forge::PullRequest| {
            pull.comments.iter().filter(|said| said.text.starts_with("Done.")).count()
        };
        let pull = scene.server.pull_requests().into_iter().find(|pull| pull.number == opened.number);
        assert_eq!(pull.as_ref().map(ours), Some(1), "{kind:?}");
        scene.understood(kind);
    }
}

#[tokio::test]
async fn merged_and_closed_are_seen_and_decide_about_their_commit_only() {
    for (kind, scene) in Scene::all().await {
        let opened = scene.open().await;
        let base = scene.repo.tip("main");
        let merged = scene.server.merge(opened.number).unwrap();
        assert_ne!(merged, base);
        assert_eq!(scene.repo.tip("main"), merged, "the base moved");
        assert_eq!(scene.repo.file("main", "answer.txt").as_deref(), Some("42\n"));
        let seen = scene.forge.look_up(&scene.wanted).await.unwrap().unwrap();
        assert_eq!((seen.number, seen.state), (opened.number, State::Merged), "{kind:?}");
        let still = scene.forge.close(scene.repository(), opened.number).await.unwrap();
        assert_eq!(still.state, State::Merged, "{kind:?}: what is merged cannot be closed");

        let commit = scene.repo.commit(&scene.wanted.branch, &[("answer.txt", "43\n")]);
        let next = NewPullRequest { commit, ..scene.wanted.clone() };
        assert_eq!(scene.forge.look_up(&next).await.unwrap(), None, "{kind:?}");
        let second = scene.forge.open(&next).await.unwrap().unwrap();
        let closed = scene.forge.close(scene.repository(), second.number).await.unwrap();
        assert_eq!(closed.state, State::Closed, "{kind:?}");
        assert_eq!(scene.forge.close(scene.repository(), second.number).await.unwrap(), closed, "{kind:?}");
        assert_eq!(scene.forge.look_up(&next).await.unwrap(), Some(closed), "{kind:?}");
        scene.understood(kind);
    }
}

#[tokio::test]
async fn what_goes_wrong_is_said_in_words_that_help() {
    for (kind, scene) in Scene::all().await {
        let number = scene.open().await.number;
        let (forge, wanted) = (&scene.forge, &scene.wanted);
        let mut other = wanted.clone();
        other.repository.name = "other".to_owned();
        let said = last_words(forge.look_up(&other).await.unwrap_err());
        assert!(said.contains("acme/other"), "{kind:?}: {said}");
        let gone = NewPullRequest { base: "gone".to_owned(), ..wanted.clone() };
        let said = last_words(forge.open(&gone).await.unwrap_err());
        assert!(said.contains("gone") || said.contains("base is invalid"), "{kind:?}: {said}");
        let same = NewPullRequest { branch: "main".to_owned(), ..wanted.clone() };
        let said = last_words(forge.open(&same).await.unwrap_err());
        let reasons = ["No commits between main and main", "same project/branch", "There are no changes"];
        assert!(
            reasons.iter().any(|reason| said.contains(reason)) && !said.contains('{'),
            "{kind:?}: {said}"
        );

        scene.server.fail(On::LookUp, Fault::Limit(30));
        match forge.look_up(wanted).await.unwrap_err() {
            Refusal::Later { wait, doubtful, .. } => {
                assert_eq!((wait, doubtful), (Some(Duration::from_secs(30)), false), "{kind:?}");
            }
            Refusal::Final { message } => panic!("{kind:?}: {message}"),
        }

        scene.server.rename("acme/shop", "acme/store").unwrap();
        let said = last_words(forge.look_up(wanted).await.unwrap_err());
        let now = format!("acme/shop has moved to {}/acme/store: give", scene.server.url());
        assert!(said.contains(&now), "{kind:?}: {said}");
        for said in [
            last_words(forge.look_up(wanted).await.unwrap_err()),
            last_words(forge.open(wanted).await.unwrap_err()),
            last_words(forge.close(scene.repository(), number).await.unwrap_err()),
        ] {
            assert!(said.contains("acme/shop has moved"), "{kind:?}: {said}");
        }
        let mut renamed = wanted.clone();
        renamed.repository.name = "store".to_owned();
        scene.server.revoke(TOKEN);
        for said in [
            last_words(forge.look_up(&renamed).await.unwrap_err()),
            last_words(forge.open(&renamed).await.unwrap_err()),
            last_words(forge.checks(&renamed.repository, &wanted.commit).await.unwrap_err()),
        ] {
            assert!(said.contains("does not accept the token in FORGE_TOKEN"), "{kind:?}: {said}");
            assert!(!said.contains(TOKEN), "{kind:?}: {said}");
        }
        scene.understood(kind);
    }
}

#[tokio::test]
async fn texts_are_cut_to_what_the_forge_takes() {
    for (kind, mut scene) in Scene::all().await {
        scene.wanted.title = "ä".repeat(900);
        scene.wanted.body = "ö".repeat(1_100_000);
        scene.wanted.readiness = Readiness::Draft;
        scene.open().await;
        let there = scene.only();
        assert!(
            there.draft && there.title.chars().count() >= 255 && there.body.chars().count() >= 60_000,
            "{kind:?}"
        );
        scene.understood(kind);
    }
}

#[tokio::test]
async fn the_person_whose_prompt_it_was_opens_it_or_is_named() {
    for (kind, mut scene) in Scene::all().await {
        scene.server.let_in("ann", "ann-token");
        let person = |token: Option<&str>| Person { name: "Ann".to_owned(), token: token.map(Token::new) };
        scene.wanted.person = Some(person(Some("ann-token")));
        scene.open().await;
        let there = scene.only();
        assert_eq!((there.author.as_str(), there.body.as_str()), ("ann", "It was 41."), "{kind:?}");

        for (number, token) in [(2, Some("revoked-token")), (3, None)] {
            scene.server.close(number - 1);
            scene.wanted.commit =
                scene.repo.commit(&scene.wanted.branch, &[("answer.txt", &format!("{number}\n"))]);
            scene.wanted.person = Some(person(token));
            scene.open().await;
            let there = scene.server.pull_requests().pop().unwrap();
            assert_eq!((there.number, there.author.as_str()), (number, "slipway-bot"), "{kind:?}");
            assert_eq!(there.body, "It was 41.\n\nOpened for Ann.", "{kind:?}");
        }
        // Each forge has words of its own for who may not; ours is tried, and both are named where ours is refused too.
        scene.server.close(3);
        scene.wanted.commit = scene.repo.commit(&scene.wanted.branch, &[("answer.txt", "4\n")]);
        scene.wanted.person = Some(person(Some("ann-token")));
        scene.server.fail_times(On::Open, Fault::Refuse(422), 2);
        let said = last_words(scene.forge.open(&scene.wanted).await.unwrap_err());
        assert!(
            said.contains("the token in FORGE_TOKEN") && said.contains("the token of Ann"),
            "{kind:?}: {said}"
        );
        scene.server.keep_out("ann");
        scene.open().await;
        let there = scene.server.pull_requests().pop().unwrap();
        assert_eq!(there.author, "slipway-bot", "{kind:?}");
        assert_eq!(there.body, "It was 41.\n\nOpened for Ann.", "{kind:?}");
        assert_eq!(scene.forge.open(&scene.wanted).await.unwrap(), None, "{kind:?}");
        scene.understood(kind);
    }
}

#[tokio::test]
async fn a_label_that_cannot_be_put_now_keeps_nobody_from_being_asked() {
    for (kind, scene) in Scene::all().await {
        scene.server.let_in("bea", "bea-token");
        let number = scene.open().await.number;
        let marks = Marks { labels: vec!["bug".to_owned()], reviewers: vec!["bea".to_owned()] };
        let on = if kind == Kind::GitLab { On::Update } else { On::Mark };
        scene.server.fail(on, Fault::Refuse(503));
        let refused = scene.forge.mark(scene.repository(), number, &marks).await.unwrap_err();
        assert!(matches!(refused, Refusal::Later { .. }), "{kind:?}: {refused}");
        if kind != Kind::GitLab {
            assert_eq!(scene.only().reviewers, ["bea"], "{kind:?}");
        }
        scene.forge.mark(scene.repository(), number, &marks).await.unwrap();
        let there = scene.only();
        assert_eq!(
            (there.labels, there.reviewers),
            (vec!["bug".to_owned()], vec!["bea".to_owned()]),
            "{kind:?}"
        );
        scene.understood(kind);
    }
}

#[tokio::test]
async fn a_thread_of_a_review_is_answered_once_and_one_that_is_gone_below_the_pull_request() {
    for (kind, scene) in Scene::all().await {
        let opened = scene.open().await;
        scene.server.say_at(opened.number, "bob", "why?", ("answer.txt", 1));
        let root = scene.only().comments[0].id;
        let thread = match kind {
            Kind::GitHub => Some(root.to_string()),
            Kind::GitLab => Some(format!("d{root}")),
            // It has no way to answer one.
            Kind::Gitea => None,
        };
        let comment = Comment { key: "prm_1.answer".to_owned(), text: "Because.".to_owned(), thread };
        for _ in 0..2 {
            scene.forge.comment(scene.repository(), opened.number, &comment).await.unwrap();
        }
        let said = scene.only().comments;
        assert_eq!(said.len(), 2, "{kind:?}: {said:?}");
        assert_eq!(said[1].thread, (kind != Kind::Gitea).then_some(root), "{kind:?}");
        let gone = Comment { key: "prm_2.answer".to_owned(), thread: Some("d999".to_owned()), ..comment };
        let gone = match kind {
            Kind::GitHub => Comment { thread: Some("999".to_owned()), ..gone },
            Kind::GitLab | Kind::Gitea => gone,
        };
        scene.forge.comment(scene.repository(), opened.number, &gone).await.unwrap();
        let said = scene.only().comments;
        assert_eq!((said.len(), said[2].thread), (3, None), "{kind:?}: {said:?}");
        scene.understood(kind);
    }
}

#[tokio::test]
async fn the_log_of_a_job_is_read_and_no_token_is_carried_elsewhere() {
    for (kind, scene) in Scene::all().await {
        let job = scene.server.report("acme/shop", &scene.wanted.commit, "build", "failure");
        assert_eq!(scene.forge.log(scene.repository(), &job.to_string()).await.unwrap(), None, "{kind:?}");
        scene.server.log(job, "error: it broke\n");
        let log = scene.forge.log(scene.repository(), &job.to_string()).await.unwrap();
        assert_eq!(log.as_deref(), Some("error: it broke\n"), "{kind:?}");
        // The end of a long one says why it failed.
        scene
            .server
            .log(job, &format!("{}error: it broke at the end\n", "line of the log\n".repeat(1_000_000)));
        let log = scene.forge.log(scene.repository(), &job.to_string()).await.unwrap().unwrap();
        assert!(
            log.len() < 5_000_000 && log.ends_with("\nerror: it broke at the end\n"),
            "{kind:?}: {}",
            log.len()
        );
        let (first, rest) = log.split_once('\n').unwrap();
        let left_out = 16_000_000 + "error: it broke at the end\n".len() - rest.len();
        assert_eq!(first, format!("({left_out} bytes before this are left out)"), "{kind:?}");
        assert!(rest.starts_with("line of the log\n"), "{kind:?}");
        scene.understood(kind);
    }
}

#[tokio::test]
async fn a_token_tells_whose_it_is_and_is_renewed_once() {
    for kind in Kind::ALL {
        let server = Server::start(TOKEN).await;
        let ours = match kind {
            Kind::GitHub => forge::Kind::GitHub,
            Kind::GitLab => forge::Kind::GitLab,
            Kind::Gitea => forge::Kind::Gitea,
        };
        let sign_in = forge::SignIn::new(ours, server.url(), &server.api_of(kind), Some("app-1")).unwrap();
        server.let_in("ann", "anns-token");
        assert_eq!(sign_in.who(&Token::new("anns-token")).await.unwrap(), "ann", "{kind:?}");
        let refused = last_words(sign_in.who(&Token::new("wrong")).await.unwrap_err());
        assert!(refused.contains("does not accept this token"), "{refused}");
        if kind == Kind::Gitea {
            assert!(!sign_in.has_codes());
            assert!(last_words(sign_in.begin().await.unwrap_err()).contains("give a token"));
            continue;
        }
        let device = sign_in.begin().await.unwrap();
        assert_eq!(sign_in.look(&device).await.unwrap(), forge::Typed::NotYet { slower: false });
        assert!(server.approve(&device.user_code, "bob"));
        let forge::Typed::Yes(grant) = sign_in.look(&device).await.unwrap() else { panic!("{kind:?}") };
        assert_eq!(sign_in.who(&grant.token).await.unwrap(), "bob");
        assert!(last_words(sign_in.look(&device).await.unwrap_err()).contains("begin again"));
        let refresh = grant.refresh.unwrap();
        let next = sign_in.renew(&refresh).await.unwrap();
        assert_ne!(next.token, grant.token);
        assert!(sign_in.renew(&refresh).await.is_err(), "{kind:?}: it is good for once");
        assert_eq!(server.violations(), Vec::<String>::new(), "{kind:?}");
    }
}
