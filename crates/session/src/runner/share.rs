//! What each call cost of the model's tokens: what it was of the answer that made it, known when it begins, and what its result
//! adds to the next request, known when it ends. Both are in the item, so that a restart counts nothing twice.

use protocol::chat::Completion;
use protocol::item::Share;
use protocol::{EventBody, Item, ItemKind, Usage};

use super::Runner;

impl Runner {
    /// The shares of an answer's calls, in order.
    pub(super) fn shares(&self, completion: &Completion, used: &EventBody) -> std::vec::IntoIter<Share> {
        let usage = match used {
            EventBody::UsageRecorded { usage, .. } => *usage,
            _ => completion.usage,
        };
        let share = |written: u64| {
            let cost_usd = self.price_of(Usage { output: written, ..Usage::default() });
            Share { written, read: 0, cost_usd }
        };
        let written = agent::share::written(&completion.parts, &usage);
        written.into_iter().map(share).collect::<Vec<_>>().into_iter()
    }

    /// A call that ends, with what its result adds.
    pub(super) fn with_share(&self, mut item: Item) -> Item {
        if let ItemKind::ToolCall(call) = &mut item.kind
            && let Some(output) = &call.output
        {
            let images: u64 = output.images.iter().map(protocol::ImageFile::tokens).sum();
            let read = agent::share::read(&output.text).saturating_add(images);
            let share = call.share.get_or_insert_default();
            let more = self.price_of(Usage { input: read, ..Usage::default() });
            share.read = read;
            share.cost_usd = share.cost_usd.zip(more).map(|(written, read)| written + read);
        }
        item
    }

    /// What this much costs with the model that works now, where its price is known.
    fn price_of(&self, usage: Usage) -> Option<f64> {
        let model = self.find_model().ok()?;
        llm::cost_usd(&model, &usage)
    }
}
