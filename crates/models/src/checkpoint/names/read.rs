//! Copies tensors from files into parameters.

use std::collections::HashSet;

use polyhead_tensor::gemm::int8::Int8Weights;
use polyhead_tensor::{Dtype, Parameters, Prepared, Tensor};

use super::CheckpointLayout;
use super::links::{ElementOrder, KERNEL, Link, Links};
use crate::checkpoint::safetensors::Weights;
use crate::{Error, ModelConfig, Result};

/// The suffix of the name of an int8 tensor's scales.
pub(super) const SCALE: &str = "_scale";
/// The parameter whose elements may be −∞.
const OUTPUT_BIAS: &str = "output.bias";
/// Maximum number of problems that a message lists; the rest are counted.
const MAX_LISTED: usize = 10;

/// Loads every declared parameter; the tensors of the file and the parameters must match exactly. With a dtype, each is
/// prepared before the next is read.
pub(crate) fn read(
    weights: &Weights,
    config: &ModelConfig,
    layout: CheckpointLayout,
    parameters: &mut Parameters,
    dtype: Option<Dtype>,
) -> Result<()> {
    let links = matched(weights, config, layout, parameters)?;
    for blocks in links.groups.chunk_by(|a, b| a[0].parameter == b[0].parameter) {
        let link = &blocks[0][0];
        if weights.dtype(&link.theirs) == Some(Dtype::Int8) && layout == CheckpointLayout::Polyhead {
            parameters.set_prepared(link.parameter, Prepared::Int8(int8(weights, link)?));
        } else {
            let value = value(weights, parameters, blocks)?;
            parameters.set(link.parameter, value);
        }
        if let Some(dtype) = dtype {
            parameters.prepare_one(link.parameter, dtype);
            blocks.iter().flatten().for_each(|link| weights.forget(&link.theirs));
        }
    }
    Ok(())
}

/// Checks that the tensors of the file and the parameters match exactly; no values are read.
pub(crate) fn check(
    weights: &Weights,
    config: &ModelConfig,
    layout: CheckpointLayout,
    parameters: &Parameters,
) -> Result<()> {
    matched(weights, config, layout, parameters).map(drop)
}

fn matched(
    weights: &Weights,
    config: &ModelConfig,
    layout: CheckpointLayout,
    parameters: &Parameters,
) -> Result<Links> {
    let links = Links::new(layout, config, parameters)?;
    let problems = problems(weights, &links);
    if !problems.is_empty() {
        let hint = format!("the config must describe this model, and its names must be those of {layout}");
        return Err(Error::file(weights.path(), listed(&problems), hint));
    }
    Ok(links)
}

/// Tensors that are missing, have a different shape, or belong to no parameter.
fn problems(weights: &Weights, links: &Links) -> Vec<String> {
    let mut problems = Vec::new();
    let mut known = HashSet::new();
    for group in &links.groups {
        for link in group.iter().filter(|link| known.insert(link.theirs.as_str())) {
            if let Some(found) = weights.shape(&link.theirs).filter(|shape| *shape != link.their_shape) {
                problems
                    .push(format!("tensor {} is {found:?}, expected {:?}", link.theirs, link.their_shape));
            }
        }
        if group.iter().all(|link| !link.is_optional && weights.shape(&link.theirs).is_none()) {
            let names: Vec<&str> = group.iter().map(|link| link.theirs.as_str()).collect();
            let shape = &group[0].their_shape;
            problems.push(format!("tensor {} is missing, expected {shape:?}", names.join(" or ")));
        }
    }
    let scales = |name: &str| {
        name.strip_suffix(SCALE).is_some_and(|weight| weights.dtype(weight) == Some(Dtype::Int8))
    };
    let unknown =
        weights.names().filter(|name| !known.contains(name) && !links.ignores(name) && !scales(name));
    problems.extend(unknown.map(|name| format!("tensor {name} is not part of the model")));
    problems.dedup();
    problems
}

fn listed(problems: &[String]) -> String {
    if let [problem] = problems {
        return problem.clone();
    }
    let mut text = format!("{} tensors do not fit the config:", problems.len());
    for problem in problems.iter().take(MAX_LISTED) {
        text += &format!("\n  {problem}");
    }
    if problems.len() > MAX_LISTED {
        text += &format!("\n  and {} more", problems.len() - MAX_LISTED);
    }
    text
}

/// Int8 weights with one scale per row.
fn int8(weights: &Weights, link: &Link) -> Result<Int8Weights> {
    let name = format!("{}{SCALE}", link.theirs);
    let &[d_out, d_in] = link.their_shape.as_slice() else {
        let message =
            format!("tensor {} is int8 of shape {:?}, expected a matrix", link.theirs, link.their_shape);
        return Err(Error::file(weights.path(), message, "only matrices are stored as int8"));
    };
    let scales = weights.tensor(&name)?;
    if scales.shape() != [d_out] {
        let message = format!("tensor {name} is {:?}, expected [{d_out}]", scales.shape());
        return Err(Error::file(weights.path(), message, "int8 weights need one scale per row"));
    }
    if scales.data().iter().any(|scale| !scale.is_finite()) {
        let message = format!("tensor {name} holds NaN or infinite values");
        return Err(Error::file(weights.path(), message, "quantise the model again"));
    }
    let values = weights.int8(&link.theirs)?;
    if values.contains(&i8::MIN) {
        let message = format!("tensor {} holds -128, expected int8 values from -127 to 127", link.theirs);
        return Err(Error::file(weights.path(), message, "quantise the model again"));
    }
    Ok(Int8Weights::from_rows([d_out, d_in], &values, scales.data()))
}

/// The value of one parameter from its blocks of rows; shapes have been checked.
fn value(weights: &Weights, parameters: &Parameters, blocks: &[Vec<Link>]) -> Result<Tensor> {
    let parameter = blocks[0][0].parameter;
    let (_, name, shape) = parameters
        .declared()
        .find(|(id, ..)| *id == parameter)
        .expect("links are made from declared parameters");
    if let [aliases] = blocks {
        return Ok(rows(weights, name, aliases)?.reshaped(shape));
    }
    let mut elements = Vec::with_capacity(shape.iter().product());
    for aliases in blocks {
        elements.extend_from_slice(rows(weights, name, aliases)?.data());
    }
    Ok(Tensor::new(shape, elements))
}

/// The rows of one block, on which all aliases in the file must agree.
fn rows(weights: &Weights, name: &str, aliases: &[Link]) -> Result<Tensor> {
    let mut present = aliases.iter().filter(|link| weights.shape(&link.theirs).is_some());
    let Some(first) = present.next() else {
        // A missing tensor that is not optional was reported before.
        return Ok(Tensor::zeros(&[aliases[0].our_rows.len() * aliases[0].width]));
    };
    let rows = cut(weights, first)?;
    // A bias of −∞ forbids a token, as in some Marian models.
    let is_allowed =
        |element: &f32| element.is_finite() || (name == OUTPUT_BIAS && *element == f32::NEG_INFINITY);
    if let Some(index) = rows.data().iter().position(|element| !is_allowed(element)) {
        let message = format!(
            "tensor {} holds {} at index {index}, expected finite values",
            first.theirs,
            rows.data()[index]
        );
        return Err(Error::file(weights.path(), message, "the file is damaged, or training diverged"));
    }
    for other in present {
        let further = cut(weights, other)?;
        let differing = rows.data().iter().zip(further.data()).position(|(a, b)| a.to_bits() != b.to_bits());
        if let Some(index) = differing {
            let (a, b) = (rows.data()[index], further.data()[index]);
            let message = format!(
                "tensors {} and {} differ ({a} and {b} at index {index}), expected two copies of {name}",
                first.theirs, other.theirs
            );
            let hint = "the config ties embeddings that differ in the file; correct its ties";
            return Err(Error::file(weights.path(), message, hint));
        }
    }
    Ok(rows)
}

/// The rows of a link, as they are in the file.
fn cut(weights: &Weights, link: &Link) -> Result<Tensor> {
    let tensor = weights.tensor(&link.theirs)?;
    match link.order {
        ElementOrder::Same => {}
        ElementOrder::Transposed => return Ok(transposed(&tensor)),
        ElementOrder::Convolution => return Ok(by_time(&tensor)),
    }
    let elements = link.their_rows.start * link.width..link.their_rows.end * link.width;
    if elements.len() == tensor.len() {
        return Ok(tensor);
    }
    Ok(Tensor::new(&[elements.len()], tensor.data()[elements].to_vec()))
}

/// The transposed matrix.
fn transposed(tensor: &Tensor) -> Tensor {
    let &[rows, columns] = tensor.shape() else { unreachable!("shapes have been checked") };
    let data = tensor.data();
    let elements = (0..columns).flat_map(|column| (0..rows).map(move |row| data[row * columns + column]));
    Tensor::new(&[columns, rows], elements.collect())
}

/// The kernel of a convolution, outputs × inputs × times, with the inputs of one time together.
fn by_time(kernel: &Tensor) -> Tensor {
    let &[outputs, inputs, _] = kernel.shape() else { unreachable!("shapes have been checked") };
    let mut elements = Vec::with_capacity(kernel.len());
    for output in kernel.data().chunks_exact(inputs * KERNEL) {
        elements.extend((0..KERNEL).flat_map(|time| output.iter().skip(time).step_by(KERNEL).copied()));
    }
    Tensor::new(&[outputs, inputs * KERNEL], elements)
}
