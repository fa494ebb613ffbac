//! `plan`: writes the model's to-do list into the log.

use protocol::EventBody;
use protocol::event::PlanItem;

use super::Done;
use crate::failure::Failure;
use crate::runner::Runner;

pub(super) async fn run(runner: &Runner, items: Vec<PlanItem>) -> Result<Done, Failure> {
    let text = agent::tools::plan_noted(&items);
    runner.append(&runner.agent, vec![EventBody::PlanUpdated { turn: runner.turn, items }]).await?;
    Ok(Done::ok(text))
}
