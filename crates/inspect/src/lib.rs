//! Pictures of attention models.
