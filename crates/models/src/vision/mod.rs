//! Vision Transformers (Dosovitskiy et al. 2021, "An Image Is Worth 16x16 Words"): an image is cut into patches, each patch is
//! projected to a vector, and an encoder stack reads the patches as a sequence.
//!
//! x = [class token; E·patch_1; …; E·patch_n] + positions, then pre-norm layers, a final norm, and a linear layer over the state of
//! the class token or the mean of the patches. DeiT (Touvron et al. 2021) adds a distillation token with a head of its own.
//!
//! 1. [`VisionConfig`] has the sizes and choices, [`ImageEncoder`] the layers; [`Images`] is a batch of patches.
//! 2. `patches.rs` is the encoder, which captioners share: `stem.rs` makes the vectors of patches by a projection or convolutions,
//!    `positions.rs` interpolates learned positions for images of another size.
//!
//! ```
//! use polyhead_models::vision::{ImageEncoder, VisionConfig};
//! use polyhead_tensor::Parameters;
//! let labels = (0..1000).map(|index| index.to_string()).collect();
//! let config = VisionConfig { labels, ..VisionConfig::named("small").expect("a preset") };
//! let mut parameters = Parameters::default();
//! ImageEncoder::new(&config, &mut parameters)?;
//! assert_eq!(parameters.count(), 22_050_664); // ViT-S/16 with 1000 classes
//! # Ok::<(), polyhead_models::Error>(())
//! ```

mod batch;
mod config;
mod encoder;
pub(crate) mod patches;
mod positions;
mod stem;

pub use batch::Images;
pub use config::{ImagePooling, ImageSpec, ImageStem, ImageTokens, VisionConfig};
pub use encoder::ImageEncoder;
