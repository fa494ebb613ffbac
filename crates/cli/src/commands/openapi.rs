//! `slipway openapi`: the description of the HTTP API, for those who generate code from it.

use crate::exit::Exit;

/// Print the description of the HTTP API (OpenAPI 3.1), as /api/v1/openapi.json of a server has it
#[derive(Debug, clap::Args)]
pub(crate) struct OpenApi {}

impl OpenApi {
    pub(super) fn run(&self) -> anyhow::Result<Exit> {
        crate::render::print::text(&server::openapi()?)?;
        Ok(Exit::Done)
    }
}
