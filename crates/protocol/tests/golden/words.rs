//! How each word of the protocol is spelled; pinned like its bodies.

use protocol::*;

use super::compare;

/// One line for each enumeration: its name and how each of its words is spelled.
macro_rules! words {
    ($($name:path => [$($variant:ident),+ $(,)?]),+ $(,)?) => {
        vec![$({
            // A variant that is missing from the list does not compile.
            #[allow(dead_code, reason = "it is there to be checked, not to be called")]
            fn complete(word: $name) {
                match word { $(<$name>::$variant => (),)+ }
            }
            serde_json::json!([stringify!($name), [$(<$name>::$variant),+]])
        }),+]
    };
}

#[test]
fn every_word_is_spelled_as_it_always_was() {
    use protocol::event as e;
    let words = words! {
        e::ActorKind => [User, Agent, System],
        e::Outcome => [Done, Escalated, Cancelled, Failed, OutOfBudget],
        e::PlanState => [Pending, InProgress, Completed, Skipped, Failed],
        e::SandboxState => [Building, Creating, Preparing, Syncing, Ready, Stopped, Lost],
        e::LimitKind => [Memory, Processes, OpenFiles, DiskBytes, DiskInodes, SharedMemory, WallClock],
        e::ServiceState => [Down, Up],
        Restart => [Always, Never],
        ImageState => [None, Building, Ready, Failed],
        StepKind => [Base, Clone, Setup, Warm],
        StepState => [Pending, Running, Built, Cached, Failed],
        e::DeliveryState => [Intended, Pushed, Opening, Opened, Failed, Unknown],
        NotificationState => [Intended, Sent, Failed],
        NotificationKind => [TurnFinished, ApprovalRequested],
        e::Channel => [Text, Reasoning, Stdout, Stderr],
        ItemStatus => [InProgress, Completed, Failed, Interrupted, Cancelled],
        Severity => [Error, Warning, Note],
        TestStatus => [Passed, Failed, Skipped],
        Status => [Queued, Working, Waiting, Done, Escalated, Failed, Cancelled, OutOfBudget],
        EnvironmentSource => [Config, Catalogue],
        Code => [BadRequest, Unauthorized, Forbidden, NotFound, Conflict, IdempotencyMismatch, EnvironmentNotFound, ModelNotFound, RepositoryUnavailable, BranchNotFound, SetupFailed, SandboxUnavailable, ModelUnavailable, ModelMisbehaved, StorageFull, StorageDamaged, DeliveryFailed, TooLarge, RateLimited, Internal, AfterEnd, OtherLineage, StorageFailed, ModelAdapted, ShuttingDown, McpUnavailable],
        Mistake => [UnknownTool, BrokenArguments, EmptyAnswer, EndlessAnswer, RepeatedCalls],
        e::CompactionLevel => [Masked, Summarised, Fresh],
        ToolMode => [Native, JsonStep, Fenced],
        EditFormat => [Patch, Replace, Whole],
        BudgetScope => [Turn, Session],
        BudgetKind => [Usd, Tokens, Seconds, Steps],
        Gate => [Delivery, Call, Host, Question],
        Permission => [Allow, Ask, Deny],
        HookPoint => [Before, After],
        HookDeed => [Passed, Vetoed, Rewrote, Replaced, Added, Failed],
        ImageCheckState => [Pending, Running, Passed, Failed, Unknown],
    };
    compare("words.jsonl", words);
}
