//! The numbers that training changes, each with a name, in one list that optimisers and checkpoints walk.

use crate::tensor::Tensor;

/// A parameter's place in its list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ParameterId(usize);

/// All parameters of a model.
#[derive(Debug, Clone, Default)]
pub struct Parameters {
    entries: Vec<(String, Tensor)>,
}

impl Parameters {
    /// Adds a parameter under a path such as `encoder.0.attention.query.weight`.
    ///
    /// # Panics
    /// If the name is taken.
    pub fn add(&mut self, name: impl Into<String>, value: Tensor) -> ParameterId {
        let name = name.into();
        assert!(self.find(&name).is_none(), "two parameters are called {name}");
        self.entries.push((name, value));
        ParameterId(self.entries.len() - 1)
    }

    /// The parameter called `name`.
    pub fn find(&self, name: &str) -> Option<ParameterId> {
        self.entries.iter().position(|(known, _)| known == name).map(ParameterId)
    }

    /// Its value.
    pub fn value(&self, id: ParameterId) -> &Tensor {
        &self.entries[id.0].1
    }

    /// Its value, to be changed.
    pub fn value_mut(&mut self, id: ParameterId) -> &mut Tensor {
        &mut self.entries[id.0].1
    }

    /// All of them with their names.
    pub fn iter(&self) -> impl Iterator<Item = (ParameterId, &str, &Tensor)> {
        self.entries
            .iter()
            .enumerate()
            .map(|(index, (name, value))| (ParameterId(index), name.as_str(), value))
    }

    /// How many numbers there are in all.
    pub fn count(&self) -> usize {
        self.entries.iter().map(|(_, value)| value.len()).sum()
    }
}
