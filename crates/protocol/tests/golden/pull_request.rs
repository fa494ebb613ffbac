//! Pull requests and forges, as requests and answers carry them.

use protocol::event::ReviewState;
use protocol::*;

use super::{compare, round_trip};

#[test]
fn pull_requests_are_written_as_they_always_were() {
    let login = ForgeLogin {
        forge: "github".to_owned(),
        kind: "github".to_owned(),
        url: "https://github.com".to_owned(),
        device: true,
        login: Some("ana".to_owned()),
    };
    let lines = vec![
        round_trip(&PullRequest {
            repository: None,
            number: 7,
            url: "https://github.com/acme/shop/pull/7".to_owned(),
            state: ReviewState::Open,
            draft: true,
            title: "Fix cart".to_owned(),
            branch: "slipway/fix-cart-00000001".to_owned(),
            commit: "0123456789abcdef0123456789abcdef01234567".to_owned(),
            checks: vec![ForgeCheck {
                name: "build".to_owned(),
                state: ForgeCheckState::Failed,
                url: Some("https://github.com/acme/shop/runs/1".to_owned()),
            }],
        }),
        round_trip(&EditPullRequest {
            title: Some("Fix the cart".to_owned()),
            body: None,
            describe: true,
            draft: Some(false),
            labels: vec!["agent".to_owned()],
            reviewers: vec!["bob".to_owned()],
            comment: Some("Please look.".to_owned()),
            close: true,
        }),
        round_trip(&ForgeLogins { logins: vec![login] }),
        round_trip(&SetLogin { token: "t0ken".to_owned() }),
        round_trip(&DeviceLogin {
            attempt: "cmd_1".to_owned(),
            code: "ABCD-1234".to_owned(),
            url: "https://github.com/login/device".to_owned(),
            expires_s: 900,
            interval_s: 5,
        }),
        round_trip(&DeviceState { login: None, interval_s: 10 }),
        round_trip(&HookTaken {
            taken: true,
            what: "it is a prompt now".to_owned(),
            session: Some(SessionId::from_u128(1)),
        }),
        round_trip(&PullRequestRules {
            template: Some("{what}".to_owned()),
            draft: true,
            labels: vec!["agent".to_owned()],
            reviewers: vec!["bob".to_owned()],
            fix_checks: 2,
        }),
        round_trip(&PullRequest {
            repository: Some("apps/web".to_owned()),
            number: 8,
            url: "https://github.com/acme/web/pull/8".to_owned(),
            state: ReviewState::Merged,
            draft: false,
            title: "Fix cart".to_owned(),
            branch: "slipway/fix-cart-00000001".to_owned(),
            commit: "0123456789abcdef0123456789abcdef01234567".to_owned(),
            checks: Vec::new(),
        }),
    ];
    compare("pull_requests.jsonl", lines);
    assert_eq!(format!("{:?}", SetLogin { token: "t0ken".to_owned() }), "SetLogin(…)");
}
