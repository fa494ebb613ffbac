//! What a session may use: money, tokens, time and steps, for each turn and for all of it.

use serde::{Deserialize, Serialize};

use crate::TurnId;

/// Limits; one that is absent is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Budget {
    /// Dollars, of calls whose price is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
    /// Tokens of all kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Seconds in which a turn was under way and waited for nobody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// Steps: model calls whose answer was used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
}

/// What each turn may use, and what all of the session may.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Budgets {
    /// Each turn.
    pub turn: Budget,
    /// All turns together.
    pub session: Budget,
}

impl Budgets {
    /// Whether nothing is limited.
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }
}

/// How much was used of what is limited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Used {
    /// Dollars, of calls whose price is known.
    pub usd: f64,
    /// Tokens of all kinds.
    pub tokens: u64,
    /// Seconds in which a turn was under way and waited for nobody.
    pub seconds: f64,
    /// Steps.
    pub steps: u32,
}

/// What a turn used, and what all of the session did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BudgetUse {
    /// The turn under way, or the last one.
    pub turn: Used,
    /// All turns together.
    pub session: Used,
}

/// Whose budget it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum BudgetScope {
    /// A turn's.
    Turn,
    /// The session's.
    Session,
}

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum BudgetKind {
    /// Dollars.
    Usd,
    /// Tokens.
    Tokens,
    /// Seconds.
    Seconds,
    /// Steps.
    Steps,
}

/// Most of a budget is used.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BudgetWarning {
    /// The turn under way.
    pub turn: TurnId,
    /// Whose budget.
    pub scope: BudgetScope,
    /// What of it.
    pub kind: BudgetKind,
    /// How much is used.
    pub used: f64,
    /// How much there is.
    pub limit: f64,
}
