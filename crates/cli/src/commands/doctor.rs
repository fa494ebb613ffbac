//! `slipway doctor`: what holds on this machine and how to get the rest.

use ::sandbox::doctor::{Finding, State};

use super::Context;
use crate::exit::Exit;
use crate::render::{print, style};

/// Say what holds on this machine and how to get the rest. Exits with 1 when something is missing.
#[derive(Debug, clap::Args)]
pub(crate) struct Doctor {}

impl Doctor {
    pub(super) async fn run(self, context: Context) -> anyhow::Result<Exit> {
        let mut findings = vec![kernel(), git()];
        let dir = context.config.server.data_dir.join("one-off");
        findings.extend(::sandbox::doctor::examine(&dir).await);
        findings.push(models(&context));
        let fine = findings.iter().all(|finding| finding.state != State::Missing);
        if context.json {
            print::json(&serde_json::json!({ "fine": fine, "findings": findings }))?;
        } else {
            for finding in &findings {
                print::line(&line(finding))?;
            }
            let verdict = if fine {
                "sandboxes work on this machine"
            } else {
                "sandboxes do not work on this machine yet; see above"
            };
            style::note(verdict);
        }
        Ok(if fine { Exit::Done } else { Exit::Failed })
    }
}

fn line(finding: &Finding) -> String {
    let paint = style::stdout();
    let mark = match finding.state {
        State::Holds => paint.good("ok     "),
        State::Weaker => paint.warn("weaker "),
        State::Missing => paint.bad("missing"),
    };
    let mut text = format!("{mark}  {:<13} {}", finding.name, finding.detail);
    if let Some(fix) = &finding.fix {
        text.push_str(&format!("\n         {:<13} {}", "", paint.dim(&format!("→ {fix}"))));
    }
    text
}

fn kernel() -> Finding {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    // Root gives each sandbox ids of its own, which takes mounts whose ids are shifted.
    let (needed, words) = if rustix::process::geteuid().is_root() {
        ((5, 19), "Linux 5.19 or later is needed; as an ordinary user 5.14 will do")
    } else {
        ((5, 14), "Linux 5.14 or later is needed")
    };
    if version >= needed {
        Finding::holds("kernel", format!("Linux {release}"))
    } else {
        Finding::missing("kernel", format!("Linux {release}"), words)
    }
}

fn git() -> Finding {
    match std::process::Command::new("git").arg("--version").output() {
        Ok(output) if output.status.success() => {
            Finding::holds("git", String::from_utf8_lossy(&output.stdout).trim().to_owned())
        }
        _ => Finding::missing("git", "the program is not there", "install git"),
    }
}

fn models(context: &Context) -> Finding {
    let models = crate::node::models(&context.config);
    if models.is_empty() {
        return Finding::weaker(
            "models",
            "none is configured; slipway demo works without one",
            "set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or add [models.NAME] to slipway.toml",
        );
    }
    let names: Vec<&str> = models.iter().map(|model| model.name.as_str()).collect();
    Finding::holds("models", names.join(", "))
}
