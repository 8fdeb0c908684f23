//! Rules of the source, the documents and the files of deployment.

pub mod checks;
pub mod commands;
pub mod dependencies;
pub mod deploy;
pub mod docs;
pub mod docs_locks;
pub mod left_out;
pub mod planted;
pub mod prose;
pub mod reference;
pub mod release;
pub mod scripts;
pub mod tidy;
