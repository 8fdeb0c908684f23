//! What the descriptions of all routes share.

use std::collections::BTreeMap;

use utoipa::IntoResponses;
use utoipa::openapi::RefOr;
use utoipa::openapi::response::{Response, ResponseBuilder};

/// A failure of the service that the next try may not meet.
pub struct TryAgain;

impl IntoResponses for TryAgain {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let response = ResponseBuilder::new().description("Try again").build();
        BTreeMap::from([("5XX".to_owned(), response.into())])
    }
}
