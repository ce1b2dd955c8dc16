//! What the settings are and what the handbook says of them.

mod settings_handbook;
