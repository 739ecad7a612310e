//! What a subscription is to be: which messages, and what becomes of those that it is too slow for.

use chappe_structures::broadcast::place::Terms;

/// What becomes of messages for which a subscriber is too slow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Slow {
    /// Publishers wait for it.
    #[default]
    Block,
    /// It loses the oldest that it has not received.
    DropOldest,
    /// It keeps at most so many that it has not received, and loses later ones. All subscriptions of this kind together may keep half of
    /// the tube's slots.
    DropNewest(u32),
}

impl Slow {
    pub(super) fn terms(self) -> Terms {
        match self {
            Slow::Block => Terms::Block,
            Slow::DropOldest => Terms::Oldest,
            Slow::DropNewest(most) => Terms::Newest(most.max(1)),
        }
    }
    pub(super) fn of(terms: Terms) -> Slow {
        match terms {
            Terms::Block => Slow::Block,
            Terms::Oldest => Slow::DropOldest,
            Terms::Newest(most) => Slow::DropNewest(most),
        }
    }
}

impl std::fmt::Display for Slow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Slow::Block => f.write_str("block"),
            Slow::DropOldest => f.write_str("drop-oldest"),
            Slow::DropNewest(most) => write!(f, "drop-newest {most}"),
        }
    }
}

/// What a subscription is to be: which messages, and what becomes of those that it is too slow for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Subscribe {
    pub(super) filter: Option<String>,
    #[cfg(feature = "synth")]
    pub(super) params: Vec<(String, chappe_synth::Value)>,
    pub(super) slow: Slow,
}

impl Subscribe {
    /// All messages; publishers wait.
    pub fn to_all() -> Subscribe {
        Subscribe::default()
    }

    /// What becomes of messages for which it is too slow.
    #[must_use]
    pub fn slow(mut self, slow: Slow) -> Subscribe {
        self.slow = slow;
        self
    }

    /// Only messages for which an expression over the tube's schema holds: a subset of CEL, see `chappe::synth`.
    #[cfg(feature = "synth")]
    #[must_use]
    pub fn filter(mut self, expression: impl Into<String>) -> Subscribe {
        self.filter = Some(expression.into());
        self
    }

    /// The value of a parameter `$name` of the filter. It can be changed later: [`Subscription::set`](super::Subscription::set).
    #[cfg(feature = "synth")]
    #[must_use]
    pub fn param(mut self, name: impl Into<String>, value: chappe_synth::Value) -> Subscribe {
        self.params.push((name.into(), value));
        self
    }
}

/// A filter of one's own words.
#[cfg(feature = "synth")]
impl From<&str> for Subscribe {
    fn from(expression: &str) -> Subscribe {
        Subscribe::to_all().filter(expression)
    }
}
