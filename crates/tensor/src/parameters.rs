//! Named parameters: the values that training updates, in one list that optimisers and checkpoints walk.
//!
//! A model first declares names, shapes and initialisation. Values come afterwards, drawn at random
//! ([`Parameters::initialise`]) or read from a file ([`Parameters::set`]), so counting the parameters of a large model
//! costs nothing.

use std::collections::HashMap;
use std::sync::Arc;

use polyhead_random::Random;

use crate::Result;
use crate::device::Device;
use crate::dtype::Dtype;
use crate::elementary::{ln, sin_cos};
use crate::prepared::Prepared;
use crate::tensor::Tensor;

/// Index of a parameter in its list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ParameterId(usize);

/// Initialisation of a parameter that is not read from a file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Init {
    /// All zero.
    Zeros,
    /// All one.
    Ones,
    /// Uniform between −bound and +bound.
    Uniform(f32),
    /// Normal with this standard deviation.
    Normal(f32),
    /// Uniform with bound √(6/(d_in + d_out)) (Glorot & Bengio 2010); a parameter that stacks several matrices has
    /// `d_out` rows in each.
    Xavier {
        /// Rows of one matrix.
        d_out: usize,
    },
}

#[derive(Debug, Clone)]
struct Entry {
    name: String,
    shape: Vec<usize>,
    init: Init,
    /// True if it is used only as a weight of products and as a table of rows.
    is_product: bool,
    /// True if training does not update it.
    is_frozen: bool,
    value: Value,
}

#[derive(Debug, Clone, Default)]
enum Value {
    #[default]
    None,
    Tensor(Tensor),
    Prepared(Arc<Prepared>),
}

/// All parameters of a model.
#[derive(Debug, Clone, Default)]
pub struct Parameters {
    entries: Vec<Entry>,
    ids_by_name: HashMap<String, ParameterId>,
    /// All values in one buffer, if they are on a GPU.
    #[cfg(feature = "cuda")]
    flat: Option<Arc<crate::cuda::FlatParameters>>,
}

impl Parameters {
    /// Declares a parameter under a path such as `encoder.layers.0.feed_forward.inner.weight`; it has no value yet.
    ///
    /// # Panics
    /// If the name is taken.
    pub fn declare(&mut self, name: impl Into<String>, shape: &[usize], init: Init) -> ParameterId {
        let name = name.into();
        let id = ParameterId(self.entries.len());
        assert!(self.ids_by_name.insert(name.clone(), id).is_none(), "two parameters are called {name}");
        let shape = shape.to_vec();
        self.entries.push(Entry {
            name,
            shape,
            init,
            is_product: false,
            is_frozen: false,
            value: Value::None,
        });
        id
    }

    /// As [`Parameters::declare`], for a matrix that is only used in products and look-ups, so that it can be prepared.
    ///
    /// # Panics
    /// If the name is taken or the shape does not have two axes.
    pub fn declare_product(&mut self, name: impl Into<String>, shape: &[usize], init: Init) -> ParameterId {
        assert!(shape.len() == 2, "weights of shape {shape:?}");
        let id = self.declare(name, shape, init);
        self.entries[id.0].is_product = true;
        id
    }

    /// The same parameters with their values on `device`; on a GPU all values share one buffer, and all gradients
    /// another.
    ///
    /// # Errors
    /// If the GPU fails.
    ///
    /// # Panics
    /// If one has no value yet, or was prepared.
    pub fn to_device(&self, device: &Device) -> Result<Self> {
        match device {
            Device::Cpu => self.to_host(),
            #[cfg(feature = "cuda")]
            Device::Cuda(cuda) => {
                let host = self.to_host()?;
                let flat = crate::cuda::FlatParameters::new(cuda, &host)?;
                let mut moved = Self { flat: None, ..host };
                for (id, span) in &flat.spans {
                    let shape = moved.entries[id.0].shape.clone();
                    moved.entries[id.0].value =
                        Value::Tensor(Tensor::on_gpu(&shape, flat.value(span.clone())));
                }
                Ok(Self { flat: Some(Arc::new(flat)), ..moved })
            }
        }
    }

    /// The same parameters with their values in CPU memory.
    ///
    /// # Errors
    /// If the GPU fails.
    pub fn to_host(&self) -> Result<Self> {
        let mut host = self.clone();
        for entry in &mut host.entries {
            if let Value::Tensor(tensor) = &entry.value {
                entry.value = Value::Tensor(tensor.to_host()?);
            }
        }
        #[cfg(feature = "cuda")]
        {
            host.flat = None;
        }
        Ok(host)
    }

    /// Device of the values: that of the first.
    pub fn device(&self) -> Device {
        let first = self.entries.iter().find_map(|entry| match &entry.value {
            Value::Tensor(tensor) => Some(tensor.device()),
            Value::None | Value::Prepared(_) => None,
        });
        first.unwrap_or_default()
    }

    /// All values in one buffer on a GPU.
    #[cfg(feature = "cuda")]
    pub(crate) fn flat(&self) -> Option<&crate::cuda::FlatParameters> {
        self.flat.as_deref()
    }

    /// As [`Parameters::flat`], shared.
    #[cfg(feature = "cuda")]
    pub(crate) fn shared_flat(&self) -> Option<Arc<crate::cuda::FlatParameters>> {
        self.flat.clone()
    }

    /// Freezes a parameter: training does not update it, and it gets no gradient.
    pub fn freeze(&mut self, id: ParameterId) {
        self.entries[id.0].is_frozen = true;
    }

    /// Freezes all parameters, so that on a GPU they need no memory for gradients.
    pub fn freeze_all(&mut self) {
        for entry in &mut self.entries {
            entry.is_frozen = true;
        }
    }

    /// True if training does not update it.
    pub fn is_frozen(&self, id: ParameterId) -> bool {
        self.entries[id.0].is_frozen
    }

    /// Quantises (for [`Dtype::Int8`]) or packs (f32) all weights of products for inference; they can no longer be changed or read as tensors.
    ///
    /// # Panics
    /// If one has no value yet.
    pub fn prepare(&mut self, dtype: Dtype) {
        for index in 0..self.entries.len() {
            self.prepare_one(ParameterId(index), dtype);
        }
    }

    /// As [`Parameters::prepare`] for one parameter; has no effect on one that is not a weight of products, or is
    /// already prepared.
    ///
    /// # Panics
    /// If it has no value yet.
    pub fn prepare_one(&mut self, id: ParameterId, dtype: Dtype) {
        if self.entries[id.0].is_product && self.prepared(id).is_none() {
            let prepared = Prepared::new(self.value(id), dtype);
            self.entries[id.0].value = Value::Prepared(Arc::new(prepared));
        }
    }

    /// Turns prepared weights back into arrays, for a device that does not compute with prepared ones.
    pub fn unprepare(&mut self) {
        for entry in &mut self.entries {
            if let Value::Prepared(prepared) = &entry.value {
                entry.value = Value::Tensor(prepared.to_tensor());
            }
        }
    }

    /// Its prepared form, if it has one.
    pub fn prepared(&self, id: ParameterId) -> Option<&Prepared> {
        match &self.entries[id.0].value {
            Value::Prepared(prepared) => Some(prepared),
            Value::None | Value::Tensor(_) => None,
        }
    }

    /// True if weights of products are prepared.
    pub fn are_prepared(&self) -> bool {
        self.entries.iter().any(|entry| matches!(entry.value, Value::Prepared(_)))
    }

    /// Bytes of all values.
    pub fn bytes(&self) -> usize {
        let values = self.entries.iter().map(|entry| match &entry.value {
            Value::None => 0,
            Value::Tensor(tensor) => tensor.len() * size_of::<f32>(),
            Value::Prepared(prepared) => prepared.bytes(),
        });
        values.sum()
    }

    /// Declares a parameter and sets its value.
    ///
    /// # Panics
    /// If the name is taken.
    pub fn add(&mut self, name: impl Into<String>, value: Tensor) -> ParameterId {
        let id = self.declare(name, value.shape(), Init::Zeros);
        self.set(id, value);
        id
    }

    /// Draws a value for every parameter that has none; each uses its own random stream, given by its index.
    pub fn initialise(&mut self, seed: u64) {
        let empty = |entry: &Entry| matches!(entry.value, Value::None);
        for (index, entry) in self.entries.iter_mut().enumerate().filter(|(_, entry)| empty(entry)) {
            let random = Random::new(seed).stream(index as u64);
            entry.value = Value::Tensor(draw(&entry.shape, entry.init, random));
        }
    }

    /// Sets the value of a parameter.
    ///
    /// # Panics
    /// If the shape is not the declared one.
    pub fn set(&mut self, id: ParameterId, value: Tensor) {
        let entry = &mut self.entries[id.0];
        assert!(entry.shape == value.shape(), "{} is {:?}, not {:?}", entry.name, entry.shape, value.shape());
        entry.value = Value::Tensor(value);
    }

    /// Sets the value of a matrix in prepared form.
    ///
    /// # Panics
    /// If it was not declared with [`Parameters::declare_product`], or has another shape.
    pub fn set_prepared(&mut self, id: ParameterId, prepared: Prepared) {
        let entry = &mut self.entries[id.0];
        let fits = entry.is_product && entry.shape == prepared.shape();
        assert!(fits, "{} is {:?}, not {:?}", entry.name, entry.shape, prepared.shape());
        entry.value = Value::Prepared(Arc::new(prepared));
    }

    /// The parameter called `name`.
    pub fn find(&self, name: &str) -> Option<ParameterId> {
        self.ids_by_name.get(name).copied()
    }

    /// Its value.
    ///
    /// # Panics
    /// If it has none, or was prepared.
    pub fn value(&self, id: ParameterId) -> &Tensor {
        match &self.entries[id.0] {
            Entry { value: Value::Tensor(tensor), .. } => tensor,
            Entry { name, value: Value::None, .. } => panic!("{name} has no value yet"),
            Entry { name, .. } => panic!("{name} was prepared for inference"),
        }
    }

    /// Its value, mutable.
    ///
    /// # Panics
    /// If it has none, or was prepared.
    pub fn value_mut(&mut self, id: ParameterId) -> &mut Tensor {
        match &mut self.entries[id.0] {
            Entry { value: Value::Tensor(tensor), .. } => tensor,
            Entry { name, value: Value::None, .. } => panic!("{name} has no value yet"),
            Entry { name, .. } => panic!("{name} was prepared for inference"),
        }
    }

    /// All parameters with their names and values.
    ///
    /// # Panics
    /// If one has no value.
    pub fn iter(&self) -> impl Iterator<Item = (ParameterId, &str, &Tensor)> {
        self.declared().map(|(id, name, _)| (id, name, self.value(id)))
    }

    /// All parameters with their names and shapes.
    pub fn declared(&self) -> impl Iterator<Item = (ParameterId, &str, &[usize])> {
        let numbered = self.entries.iter().enumerate();
        numbered.map(|(index, entry)| (ParameterId(index), entry.name.as_str(), entry.shape.as_slice()))
    }

    /// Total number of values.
    pub fn count(&self) -> usize {
        self.entries.iter().map(|entry| entry.shape.iter().product::<usize>()).sum()
    }
}

fn draw(shape: &[usize], init: Init, random: Random) -> Tensor {
    let mut tensor = Tensor::zeros(shape);
    let d_in = shape.last().copied().unwrap_or(1);
    let bounded = |bound: f32| move |index: u64| (random.uniform(index) as f32 * 2.0 - 1.0) * bound;
    let data = tensor.data_mut().iter_mut().zip(0..);
    match init {
        Init::Zeros => {}
        Init::Ones => data.for_each(|(number, _)| *number = 1.0),
        Init::Uniform(bound) => data.for_each(|(number, index)| *number = bounded(bound)(index)),
        Init::Xavier { d_out } => {
            let bound = (6.0 / (d_in + d_out) as f32).sqrt();
            data.for_each(|(number, index)| *number = bounded(bound)(index));
        }
        Init::Normal(deviation) => {
            data.for_each(|(number, index)| *number = normal(random, index) * deviation);
        }
    }
    tensor
}

/// A standard normal random number (Box & Muller 1958): √(−2 ln u)·cos 2πv.
fn normal(random: Random, index: u64) -> f32 {
    let (u, v) = (1.0 - random.uniform(2 * index), random.uniform(2 * index + 1));
    let [_, cos] = sin_cos(std::f64::consts::TAU * v);
    ((-2.0 * ln(u)).sqrt() * cos) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_start_as_declared() {
        let mut parameters = Parameters::default();
        let inits =
            [Init::Zeros, Init::Ones, Init::Uniform(0.5), Init::Normal(2.0), Init::Xavier { d_out: 100 }];
        let ids = inits.map(|init| parameters.declare(format!("{init:?}"), &[200, 100], init));
        assert_eq!(parameters.count(), 100_000);
        parameters.initialise(3);
        let moments = |id| {
            let data = parameters.value(id).data();
            let mean = data.iter().map(|&x| f64::from(x)).sum::<f64>() / data.len() as f64;
            let square = data.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / data.len() as f64;
            (mean, square.sqrt())
        };
        let expected = [(0.0, 0.0), (1.0, 1.0), (0.0, 0.5 / 3_f64.sqrt()), (0.0, 2.0), (0.0, 0.1)];
        for (id, (mean, deviation)) in ids.into_iter().zip(expected) {
            let found = moments(id);
            assert!((found.0 - mean).abs() < 0.03 && (found.1 - deviation).abs() < 0.02, "{id:?} {found:?}");
        }
    }

    #[test]
    fn prepared_weights_become_arrays_again() {
        let mut parameters = Parameters::default();
        let id = parameters.declare_product("weight", &[5, 7], Init::Normal(1.0));
        parameters.initialise(3);
        let before = parameters.value(id).clone();
        let again = |dtype| {
            let mut parameters = parameters.clone();
            parameters.prepare(dtype);
            parameters.unprepare();
            assert!(!parameters.are_prepared());
            parameters.value(id).clone()
        };
        assert_eq!(again(Dtype::F32).data(), before.data());
        let bytes = again(Dtype::Int8);
        let largest = before.data().iter().fold(0.0, |largest: f32, x| largest.max(x.abs()));
        for (a, b) in before.data().iter().zip(bytes.data()) {
            assert!((a - b).abs() <= largest / 127.0, "{a} {b}");
        }
    }

    #[test]
    fn declaring_a_parameter_takes_constant_time() {
        let started = std::time::Instant::now();
        let mut parameters = Parameters::default();
        for index in 0..200_000 {
            parameters.declare(format!("{index:06}"), &[1], Init::Ones);
        }
        assert_eq!(parameters.find("123456"), Some(ParameterId(123_456)));
        assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
    }

    #[test]
    #[should_panic(expected = "two parameters are called gamma")]
    fn duplicate_names_are_refused() {
        let mut parameters = Parameters::default();
        parameters.declare("gamma", &[3], Init::Ones);
        parameters.declare("gamma", &[4], Init::Ones);
    }

    #[test]
    #[should_panic(expected = "gamma is [3], not [4]")]
    fn a_value_of_the_wrong_shape_is_refused() {
        let mut parameters = Parameters::default();
        let id = parameters.declare("gamma", &[3], Init::Ones);
        parameters.set(id, Tensor::zeros(&[4]));
    }
}
