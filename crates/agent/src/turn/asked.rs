//! What follows from the way in which a model is asked: its instructions, its tools and how much it is sent.

use protocol::chat::ToolSpec;
use protocol::{Check, EditFormat, McpTool};

use crate::fit::Fit;
use crate::input::{Limits, Profile};
use crate::mode::Mode;
use crate::prompt::{round_prompt, step_prompt, system_prompt};
use crate::tools::{self, Offers};
use crate::window::Window;

/// The instructions for a model that is asked in this way.
pub(super) fn system(mode: &dyn Mode, instructions: &str, checks: &[Check], offers: Offers) -> String {
    match mode.in_rounds() {
        true => round_prompt(instructions, checks),
        false if mode.is_native() => system_prompt(instructions, checks, suited(mode, offers)),
        false => step_prompt(instructions, checks, suited(mode, offers)),
    }
}

/// All tools of a model that is asked in this way. Those of servers have schemas that only providers know how to offer.
pub(super) fn all_tools(
    mode: &dyn Mode,
    format: EditFormat,
    offers: Offers,
    mcp: &[McpTool],
) -> Vec<ToolSpec> {
    let mut all = tools::specs(format, suited(mode, offers));
    if mode.is_native() {
        all.extend(tools::mcp_specs(mcp));
    }
    all
}

/// What of the offers suits models that are asked in this way. Those that cannot write calls ask for the sake of asking, and
/// each tool more costs them some of the few steps that they get right; what is remembered is given to them all the same.
fn suited(mode: &dyn Mode, offers: Offers) -> Offers {
    let native = mode.is_native();
    Offers { ask: offers.ask && native, memory: offers.memory && native, ..offers }
}

/// How requests fit a model.
pub(super) fn fit(profile: Profile, limits: &Limits) -> Fit {
    let answer = profile.max_output.unwrap_or(u32::MAX).min(limits.max_output_tokens);
    let window = Window::new(profile.context, answer.into());
    Fit::new(window, profile.cuts_in_silence)
}
