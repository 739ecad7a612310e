//! chappe
