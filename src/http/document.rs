//! The description of the API: what the attributes of the routes say, and what holds for all of them.

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use utoipa::OpenApi as _;
use utoipa::openapi::path::Operation;
use utoipa::openapi::response::ResponseBuilder;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Content, OpenApi, Ref, RefOr};

use super::route::purchase;
use crate::extensions;
use crate::http::problems;
use web::problem::{self, ProblemBody, ProblemType};

/// The media type of every failure.
const PROBLEM: &str = "application/problem+json";
/// The tables of the types of problem: of all routes, of the core, and of the extensions.
pub(super) fn tables() -> Vec<&'static [&'static ProblemType]> {
    let of_extensions = extensions::ALL.iter().map(|extension| extension.problems);
    [web::problems::ALL, problems::ALL].into_iter().chain(of_extensions).collect()
}
/// The tags of operations without a sign-in.
const TAGS_OF_STRANGERS: [&str; 2] = ["everyone", "payment provider"];

/// What an answer 4XX means, 5XX to a question, and 5XX to a change, unless the operation says more.
const REFUSED: &str = "Nothing changed, and `code` says why";
const TRY_AGAIN: &str = "Try again";
const MAY_HAVE_HAPPENED: &str = "Try again; with outcome unknown it may have happened: look first, or send it again with the same Idempotency-Key";

#[derive(utoipa::OpenApi)]
#[openapi(info(title = "Seckill"), components(schemas(ProblemBody)))]
struct Document;

/// The document without operations: the title, the description and the way to sign in.
pub(super) fn begin() -> OpenApi {
    let mut document = Document::openapi();
    let description = format!("{}\n{}", include_str!("description.md"), problem::table(&tables()));
    document.info.description = Some(description);
    let bearer = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
    document.components.get_or_insert_default().add_security_scheme("bearer", bearer);
    document
}

/// Answers what stands at the `type` of a problem: its row of the table.
pub(super) async fn explain(Path(code): Path<String>) -> Response {
    match tables().concat().iter().find(|kind| kind.code() == code) {
        Some(kind) => problem::table(&[&[*kind]]).into_response(),
        None => problems::NOT_FOUND.problem().into_response(),
    }
}

/// Adds to each operation its id, who may call it, and its failures.
pub(super) fn complete(document: &mut OpenApi) {
    for (path, item) in &mut document.paths.paths {
        let words = path.trim_start_matches("/api").split(|c: char| !c.is_ascii_alphanumeric());
        let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
        let operations = [
            ("get", &mut item.get),
            ("put", &mut item.put),
            ("post", &mut item.post),
            ("patch", &mut item.patch),
            ("delete", &mut item.delete),
        ];
        for (method, operation) in operations {
            let Some(operation) = operation else { continue };
            // Generators of clients make names of these ids.
            operation.operation_id = Some(format!("{method}_{}", words.join("_")));
            if !path.starts_with("/api/") {
                continue;
            }
            if !is_for_strangers(operation) {
                let bearer = SecurityRequirement::new("bearer", <[&str; 0]>::default());
                operation.security = Some(vec![bearer]);
            }
            describe_failures(method, operation);
        }
    }
    purchase::document_options(document);
}

fn is_for_strangers(operation: &Operation) -> bool {
    let tags = operation.tags.as_deref().unwrap_or_default();
    tags.iter().any(|tag| TAGS_OF_STRANGERS.contains(&tag.as_str()))
}

/// Adds the failures that an operation does not describe by itself, and the form of all.
fn describe_failures(method: &str, operation: &mut Operation) {
    let not_answered = if method == "get" { TRY_AGAIN } else { MAY_HAVE_HAPPENED };
    let responses = &mut operation.responses.responses;
    for (status, description) in [("4XX", REFUSED), ("5XX", not_answered)] {
        let response = || RefOr::T(ResponseBuilder::new().description(description).build());
        responses.entry(status.to_owned()).or_insert_with(response);
    }
    for (status, response) in responses {
        if let RefOr::T(response) = response
            && status.ends_with("XX")
        {
            let body = Content::new(Some(Ref::from_schema_name("ProblemBody")));
            response.content.insert(PROBLEM.to_owned(), body.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::account::password::{PASSWORD_BYTES_MAX, PASSWORD_LENGTH_MIN};
    use shop_domain::Username;

    #[test]
    fn each_code_has_one_row_and_each_row_reads_well() {
        let rows = tables().concat();
        let codes: HashSet<&str> = rows.iter().map(|kind| kind.code()).collect();
        assert_eq!(codes.len(), rows.len(), "a code has two rows");
        for kind in rows {
            let is_code = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
            assert!(kind.code().bytes().all(is_code), "{kind:?}");
            let status = kind.problem().status();
            assert!(status.is_client_error() || status.is_server_error(), "{kind:?}");
            assert!(kind.advice().ends_with('.'), "{kind:?}");
        }
    }

    #[test]
    fn limits_in_the_table_are_those_of_the_code() {
        let name = problems::INVALID_USERNAME.advice();
        assert!(name.contains(&format!("1 to {} ", Username::LENGTH_MAX)), "{name}");
        let password = problems::INVALID_PASSWORD.advice();
        for limit in [PASSWORD_LENGTH_MIN, PASSWORD_BYTES_MAX] {
            assert!(password.contains(&limit.to_string()), "{password}");
        }
    }
}
