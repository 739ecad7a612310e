//! The schema of a tube's records, as text.

use super::named::TubeError;

/// A schema's text.
pub(crate) struct Parsed {
    pub text: String,
    pub size: u32,
    pub hash: u64,
}

impl Parsed {
    /// Of a text, or of the name of one.
    #[cfg(feature = "synth")]
    pub fn new(text: &str) -> Result<Parsed, TubeError> {
        let text = crate::schemas::resolved(text).map_err(|e| TubeError::Schema { what: e.to_string() })?;
        let schema = chappe_synth::Schema::parse(&text).map_err(wrong("the schema makes no sense"))?;
        Ok(Parsed { text: schema.to_string(), size: schema.size(), hash: schema.hash() })
    }

    /// Only the canonical form, which ends with the size.
    #[cfg(not(feature = "synth"))]
    pub fn new(text: &str) -> Result<Parsed, TubeError> {
        let size = text.rsplit_once("; size ").and_then(|(_, size)| size.parse().ok());
        let what = || format!("`{text}` is not in canonical form, which is needed without the feature `synth`");
        let size = size.ok_or_else(|| TubeError::Schema { what: what() })?;
        Ok(Parsed { text: text.to_owned(), size, hash: chappe_arena::hash(text).max(1) })
    }

    /// Refuses the tube of this name, which has other fields, or none.
    pub fn check(&self, name: String, has: Option<String>) -> Result<(), TubeError> {
        if has.as_deref() == Some(&self.text) {
            return Ok(());
        }
        let has = has.map_or_else(|| "no schema".to_owned(), |text| format!("`{text}`"));
        Err(TubeError::OtherShape { name, has, wanted: format!("`{}`", self.text) })
    }
}

#[cfg(feature = "synth")]
pub(crate) fn wrong<E: std::fmt::Display>(what: &'static str) -> impl Fn(E) -> TubeError {
    move |e| TubeError::Schema { what: format!("{what}: {e}") }
}
