//! `check`: runs one check, or all, and gives their digests.

use super::Done;
use crate::failure::Failure;
use crate::runner::Runner;

pub(super) async fn run(runner: &Runner, name: Option<&str>) -> Result<Done, Failure> {
    let wanted: Vec<_> =
        runner.checks.iter().filter(|check| name.is_none_or(|name| check.name == name)).cloned().collect();
    if wanted.is_empty() {
        let names: Vec<&str> = runner.checks.iter().map(|check| check.name.as_str()).collect();
        return Ok(match name {
            Some(name) if !names.is_empty() => {
                Done::error(format!("There is no check \"{name}\". The checks are: {}.", names.join(", ")))
            }
            _ => Done::error(
                "This environment has no checks. Run the project's own tests with the shell tool.",
            ),
        });
    }
    let mut parts = Vec::new();
    let mut results = Vec::new();
    for check in &wanted {
        let result = runner.run_check(check).await?;
        let verdict = if result.passed { "passed" } else { "failed" };
        parts.push(format!("check {}: {verdict}\n{}", check.name, result.digest.trim()));
        results.push(result);
    }
    let text = parts.join("\n\n");
    runner.give_patterns(&results).await?;
    Ok(if results.iter().all(|result| result.passed) { Done::ok(text) } else { Done::error(text) })
}
