//! `GET /statistics`: what came of the sessions.

use axum::Json;
use axum::extract::State;
use protocol::{Bucket, Statistics};
use serde::Deserialize;
use session::StatisticsFilter;

use crate::app::App;
use crate::authorize::{Action, Caller, Resource};
use crate::extract::Params;
use crate::problem::{Failure, bad_request};

/// Which part. What is empty says as little as what is left out.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Which {
    from: Option<String>,
    to: Option<String>,
    bucket: Option<String>,
    environment: Option<String>,
    person: Option<String>,
    model: Option<String>,
}

/// Says how many sessions were made, delivered and merged, how fast and for how much, over time and by environment, person and
/// model; and who asks for something just now. Days are in UTC.
#[utoipa::path(
    get, path = "/api/v1/statistics", tag = "sessions", operation_id = "show_statistics",
    params(
        ("from" = Option<String>, Query, description = "The first day, such as 2026-11-16; 30 days before the last when absent"),
        ("to" = Option<String>, Query, description = "The last day; today when absent"),
        ("bucket" = Option<Bucket>, Query, description = "How time is divided; by day when absent"),
        ("environment" = Option<String>, Query, description = "Only this environment"),
        ("person" = Option<String>, Query, description = "Only sessions in which this person asked first"),
        ("model" = Option<String>, Query, description = "Only this model"),
    ),
    responses((status = 200, body = Statistics), (status = 400, description = "A day that is none"))
)]
pub(crate) async fn show(
    State(app): State<App>,
    caller: Caller,
    Params(which): Params<Which>,
) -> Result<Json<Statistics>, Failure> {
    let sessions = app.allow(&caller, Action::Read, Resource::Sessions)?;
    let said = |value: Option<String>| value.filter(|value| !value.is_empty());
    let bucket = match said(which.bucket).as_deref() {
        None | Some("day") => Bucket::Day,
        Some("week") => Bucket::Week,
        Some("month") => Bucket::Month,
        Some(other) => {
            return Err(bad_request(format!("bucket is day, week or month, not \"{other}\"")).into());
        }
    };
    let filter = StatisticsFilter {
        from: said(which.from),
        to: said(which.to),
        bucket,
        environment: said(which.environment),
        person: said(which.person),
        model: said(which.model),
    };
    Ok(Json(sessions.statistics(&filter).await?))
}
