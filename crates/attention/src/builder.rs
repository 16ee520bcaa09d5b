//! Declares the parameters of nested layers, each under a path such as `encoder.layers.0.norm.gamma`.
//!
//! ```
//! use polyhead_attention::Builder;
//! use polyhead_tensor::{Init, Parameters};
//! let mut parameters = Parameters::default();
//! let mut builder = Builder::new(&mut parameters);
//! builder.at("encoder").at("norm").declare("gamma", &[4], Init::Ones);
//! assert!(parameters.find("encoder.norm.gamma").is_some());
//! ```

use polyhead_tensor::{Init, ParameterId, Parameters};

/// A path prefix under which parameters are declared.
#[derive(Debug)]
pub struct Builder<'a> {
    parameters: &'a mut Parameters,
    path: String,
}

impl<'a> Builder<'a> {
    /// A builder at the root of `parameters`.
    pub fn new(parameters: &'a mut Parameters) -> Self {
        Self { parameters, path: String::new() }
    }

    /// A builder one path segment further down.
    pub fn at(&mut self, name: impl std::fmt::Display) -> Builder<'_> {
        Builder { path: format!("{}{name}.", self.path), parameters: self.parameters }
    }

    /// Declares a parameter under the current path.
    ///
    /// # Panics
    /// If the name is already taken.
    pub fn declare(&mut self, name: &str, shape: &[usize], init: Init) -> ParameterId {
        self.parameters.declare(format!("{}{name}", self.path), shape, init)
    }

    /// Declares a matrix used only in products and look-ups, which can therefore be prepared (packed) for inference.
    ///
    /// # Panics
    /// If the name is already taken.
    pub fn declare_product(&mut self, name: &str, shape: &[usize], init: Init) -> ParameterId {
        self.parameters.declare_product(format!("{}{name}", self.path), shape, init)
    }
}
