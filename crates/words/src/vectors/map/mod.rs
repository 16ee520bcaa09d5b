//! Two-dimensional maps of vectors: principal components, t-SNE, and clusters for colours.

mod clusters;
mod pca;
mod tsne;

pub use clusters::clusters;
pub use pca::principal_components;
pub use tsne::{TsneOptions, tsne};
