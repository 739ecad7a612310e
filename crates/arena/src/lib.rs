//! chappe-arena
