//! Calls for the platform itself, which are no steps of the work: summaries and judgements. What is asked can be made shorter, so a
//! server that takes less than was thought is asked again with less.

use llm::{Class, Model};
use protocol::chat::Request;

use super::Runner;
use super::model::{Called, Kind};
use crate::failure::Failure;
use crate::state::Retry;

/// How often a request is made shorter.
const SHORTER: u32 = 4;

impl Runner {
    /// Asks a model that is thought to read so many tokens; `request` makes the request for what it reads. None where there is
    /// nothing to ask.
    pub(super) async fn ask_shortened(
        &self,
        model: &Model,
        mut reads: u64,
        kind: Kind,
        mut resumed: Option<Retry>,
        request: impl Fn(u64) -> Option<Request>,
    ) -> Result<Option<Called>, Failure> {
        let mut shortened = 0;
        loop {
            let Some(asked) = request(reads) else { return Ok(None) };
            match self.ask_aside(model, &asked, kind, resumed.take()).await? {
                Called::Failed(error) if error.class == Class::ContextOverflow && shortened < SHORTER => {
                    (reads, shortened) = (fewer(reads, error.takes), shortened + 1);
                    // What was asked may have been shorter already than it was thought that it has to be.
                    while reads > 0 && request(reads).as_ref() == Some(&asked) {
                        reads /= 2;
                    }
                }
                called => return Ok(Some(called)),
            }
        }
    }
}

/// The tokens that a model is to be given after it turned out that so many are too many. Where its server takes no fewer than that,
/// they were more than was estimated.
pub(crate) fn fewer(reads: u64, takes: Option<u64>) -> u64 {
    takes.filter(|takes| *takes < reads).unwrap_or(reads / 2)
}
