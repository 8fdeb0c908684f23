//! Sales, orders and movements of stock as files, and sales from a table.

pub mod export;
mod export_route;
mod export_table;
mod formula;
mod import_route;
pub mod problems;
mod sql {
    pub mod rows;
}
mod table;
mod writer;

use std::sync::Arc;

use extension::ports::{NewItems, ReadItem};
use extension::{Core, Extension, Parts};
use ledger::Ledger;
use settings::Sections;
use shop_domain::Currency;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::routes_state;

use crate::export::Exporter;

pub use encoding_rs::Encoding;
pub use table::{FaultBody, Table, charset_named, read_table};

routes_state!(FilesState, FilesParts {
    exporter: Exporter,
    read_item: ReadItem,
    /// Creates sales.
    shelf: Arc<dyn NewItems>,
    currency: Currency,
    /// Where the actions of operators are noted.
    ledger: Ledger,
});

/// The extension.
pub static EXTENSION: Extension = Extension {
    name: "files",
    defaults: "",
    check: |_| Ok(()),
    problems: problems::ALL,
    personal_data: &[],
    document: || routes().into_openapi(),
    build,
};

fn build(core: &Core, _: &Sections) -> Result<Parts, String> {
    let parts = FilesParts {
        exporter: Exporter::new(core.ledger.clone()),
        read_item: core.read_item,
        shelf: Arc::clone(&core.new_items),
        currency: core.currency,
        ledger: core.ledger.clone(),
    };
    let state = FilesState::new(Arc::clone(&core.kit), parts);
    Ok(Parts { routes: routes().with_state(state), ..Parts::default() })
}

fn routes() -> OpenApiRouter<FilesState> {
    OpenApiRouter::new().routes(routes!(export_route::export)).routes(routes!(import_route::import))
}
