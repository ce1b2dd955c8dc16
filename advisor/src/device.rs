//! How bad it is when a device changes its state.

use crate::Severity;
use cenote_control::model::VdevState;

/// What has become of a device that is in this state from now on, where that wants a person's
/// attention at once.
pub fn became(state: VdevState) -> Option<(Severity, &'static str)> {
    match state {
        VdevState::Removed => Some((Severity::Danger, "was removed (REMOVED)")),
        VdevState::CantOpen => Some((Severity::Danger, "cannot be opened (UNAVAIL)")),
        VdevState::Faulted => Some((Severity::Danger, "is out of service (FAULTED)")),
        VdevState::Degraded => Some((Severity::Attention, "made many errors (DEGRADED)")),
        _ => None,
    }
}
