//! `GET /openapi.json`: the API's description, made from the descriptions beside the handlers.

use axum::Json;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::Type;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{Content, ObjectBuilder, OpenApi as OpenApiDocument, Ref, RefOr, ResponseBuilder};
use utoipa::{Modify, OpenApi};

use super::{
    approvals, backup, environments, events, files, forge_hooks, health, images, logins, me, memory, models,
    outputs, prompts, pull_request, secrets, sessions, settings, snapshots, socket, spend, statistics,
};
use crate::authorize::{Action, Caller, Resource, authorize};
use crate::problem::{Failure, MEDIA_TYPE};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Slipway",
        description = "Sessions, prompts and events of a Slipway server. Errors are application/problem+json with a \
                       stable code. A server that listens beyond its own machine demands a token."
    ),
    paths(
        sessions::create,
        sessions::list,
        sessions::show,
        sessions::edit,
        sessions::egress,
        sessions::stop,
        sessions::diff,
        sessions::deliver,
        sessions::preview,
        pull_request::show,
        pull_request::edit,
        pull_request::bundle,
        pull_request::rebase,
        prompts::create,
        prompts::edit,
        prompts::remove,
        prompts::queue,
        prompts::set_queue,
        approvals::resolve,
        events::events,
        socket::socket,
        socket::session_socket,
        outputs::output,
        files::list,
        files::show,
        environments::list,
        environments::show,
        environments::put,
        environments::check,
        environments::remove,
        snapshots::list,
        snapshots::fork,
        images::show,
        images::build,
        images::warm,
        images::egress,
        images::note_egress,
        images::allow,
        images::collect,
        backup::backup,
        backup::restore,
        models::list,
        models::test,
        settings::show,
        spend::show,
        statistics::show,
        me::show,
        memory::list,
        memory::search,
        memory::remember,
        memory::show,
        memory::edit,
        memory::remove,
        secrets::list,
        secrets::set,
        secrets::remove,
        logins::list,
        logins::set,
        logins::remove,
        logins::begin,
        logins::go_on,
        forge_hooks::take,
        health::health,
        openapi,
    ),
    components(schemas(
        protocol::Event,
        protocol::Ephemeral,
        protocol::Problem,
        protocol::ClientMessage,
        protocol::ServerMessage,
        protocol::Archived,
        protocol::FileState
    )),
    modifiers(&Everywhere),
    security((), ("token" = []))
)]
struct Api;

/// What holds for every operation and is not repeated beside each: the token, problems, keys of commands.
struct Everywhere;

impl Modify for Everywhere {
    fn modify(&self, openapi: &mut OpenApiDocument) {
        let token = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        let components = openapi.components.get_or_insert_default();
        components.add_security_scheme("token", token);
        for item in openapi.paths.paths.values_mut() {
            if let Some(read) = &mut item.get {
                describe_answers(read);
            }
            let commands = [&mut item.put, &mut item.post, &mut item.patch, &mut item.delete];
            for command in commands.into_iter().flatten() {
                describe_answers(command);
                command.parameters.get_or_insert_default().push(key().into());
            }
        }
    }
}

/// Every answer that is not a success is a problem; OpenAPI wants each answer described.
fn describe_answers(operation: &mut Operation) {
    let responses = &mut operation.responses.responses;
    let other = ResponseBuilder::new().description("A problem, with a stable code");
    responses.insert("default".to_owned(), other.build().into());
    for (status, response) in responses {
        let RefOr::T(response) = response else { continue };
        if status == "default" || status.starts_with(['4', '5']) {
            let problem = Content::new(Some(Ref::from_schema_name("Problem")));
            response.content.insert(MEDIA_TYPE.to_owned(), RefOr::T(problem));
        }
        if response.description.is_empty() {
            response.description = "Done".to_owned();
        }
    }
}

fn key() -> Parameter {
    ParameterBuilder::new()
        .name("Idempotency-Key")
        .parameter_in(ParameterIn::Header)
        .description(Some(
            "1 to 200 visible ASCII characters; makes a repeated request answer like the first",
        ))
        .schema(Some(
            ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)).max_length(Some(200)),
        ))
        .build()
}

/// Describes this API.
#[utoipa::path(
    get, path = "/api/v1/openapi.json", tag = "server", operation_id = "show_openapi",
    responses((status = 200, description = "An OpenAPI document", content_type = "application/json"))
)]
pub(crate) async fn openapi(caller: Caller) -> Result<Json<OpenApiDocument>, Failure> {
    authorize(Some(&caller.0), Action::Read, Resource::Server)?;
    Ok(Json(document()))
}

/// The description itself.
pub(crate) fn document() -> OpenApiDocument {
    Api::openapi()
}
