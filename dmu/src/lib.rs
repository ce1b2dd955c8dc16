//! cenote-dmu
