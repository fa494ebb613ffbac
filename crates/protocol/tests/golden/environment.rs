//! Examples of environments and of their images.

use protocol::*;

use super::at;

pub(super) fn environment() -> Environment {
    Environment {
        repos: vec![Repo {
            url: "/srv/git/shop.git".to_owned(),
            branch: Some("main".to_owned()),
            path: None,
        }],
        setup: vec![SetupStep {
            run: "npm ci".to_owned(),
            inputs: vec!["package-lock.json".to_owned()],
            ..SetupStep::default()
        }],
        checks: vec![Check {
            name: "test".to_owned(),
            run: "npm test".to_owned(),
            parser: "auto".to_owned(),
        }],
        model: Some("main".to_owned()),
        instructions: Some("Prices are in cents.".to_owned()),
        ..Environment::default()
    }
}

/// With everything that an environment can have.
pub(super) fn whole_environment() -> Environment {
    Environment {
        base: "oci:node:22".to_owned(),
        setup: vec![SetupStep {
            run: "npm ci".to_owned(),
            inputs: vec!["package-lock.json".to_owned()],
            attempts: Some(5),
            timeout_s: Some(600),
        }],
        warm: vec![SetupStep { run: "npm run build".to_owned(), ..SetupStep::default() }],
        services: vec![Service {
            name: "postgres".to_owned(),
            run: "postgres -D data".to_owned(),
            ready: Probe { tcp: Some(5432), ..Probe::default() },
            timeout_s: Some(30),
            restart: protocol::Restart::Never,
        }],
        egress: Egress::Allow(vec!["registry.npmjs.org".to_owned()]),
        secrets: vec![Secret {
            name: "NPM_TOKEN".to_owned(),
            env: Some("SHOP_NPM_TOKEN".to_owned()),
            file: None,
            secret: None,
            hosts: vec!["registry.npmjs.org".to_owned()],
            form: "bearer".to_owned(),
        }],
        limits: SandboxLimits {
            cpus: Some(1.5),
            memory_mb: Some(64),
            processes: Some(100),
            open_files: Some(200),
            disk_mb: Some(300),
            inodes: Some(400),
            wall_clock_s: Some(500),
            user_namespaces: Some(true),
        },
        pool: Some(2),
        rebuild_s: Some(900),
        approve: vec![Gate::Delivery],
        policy: super::policy(),
        mcp: vec![
            McpUse::Named("sentry".to_owned()),
            McpUse::Program(McpProgram {
                name: "files".to_owned(),
                command: vec!["mcp-files".to_owned(), "/workspace".to_owned()],
                timeout_s: Some(30),
                ..McpProgram::default()
            }),
        ],
        ..environment()
    }
}

pub(super) fn image() -> ImageStatus {
    ImageStatus {
        state: ImageState::Failed,
        current: Some(ImageInfo {
            key: "3f9c".to_owned(),
            branch: "main".to_owned(),
            commit: "0123".to_owned(),
            built_at: at(),
            age_s: 60,
            bytes: 5000,
            duration_ms: 700,
            checks: vec![ImageCheck {
                name: "test".to_owned(),
                run: "npm test".to_owned(),
                state: ImageCheckState::Failed,
                failures: 2,
                duration_ms: 900,
                why: None,
            }],
        }),
        steps: vec![StepStatus {
            title: "npm ci".to_owned(),
            kind: StepKind::Setup,
            state: StepState::Failed,
            duration_ms: 650,
            limit_ms: Some(600_000),
            bytes: 0,
            attempts: 3,
            output: "no such package".to_owned(),
            notes: vec!["the input lock is not in the repository".to_owned()],
        }],
        error: Some("the step `npm ci` exited with 1".to_owned()),
        warm: 1,
        outdated: true,
    }
}
