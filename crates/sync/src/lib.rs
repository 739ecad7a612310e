//! chappe-sync
