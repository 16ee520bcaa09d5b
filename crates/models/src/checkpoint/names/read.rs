//! Numbers from files into parameters.

use std::collections::HashSet;

use polyhead_tensor::gemm::int8::Int8Weights;
use polyhead_tensor::{Parameters, Precision, Prepared, Tensor};

use super::Layout;
use super::links::{Link, Links};
use crate::checkpoint::safetensors::{Dtype, Weights};
use crate::{Error, ModelConfig, Result};

/// What the scales of an array of bytes are called, after its name.
pub(super) const SCALE: &str = "_scale";
/// So many faults are listed; the rest is counted.
const MOST_LISTED: usize = 10;

/// Gives every declared parameter its numbers; the arrays of the file and the parameters must match exactly. With a
/// precision, each is prepared before the next is read.
pub(crate) fn read(
    weights: &Weights,
    config: &ModelConfig,
    layout: Layout,
    parameters: &mut Parameters,
    precision: Option<Precision>,
) -> Result<()> {
    let links = matched(weights, config, layout, parameters)?;
    for blocks in links.groups.chunk_by(|a, b| a[0].parameter == b[0].parameter) {
        let link = &blocks[0][0];
        if weights.dtype(&link.theirs) == Some(Dtype::I8) && layout == Layout::Polyhead {
            parameters.set_prepared(link.parameter, Prepared::Int8(int8(weights, link)?));
        } else {
            let value = value(weights, parameters, blocks)?;
            parameters.set(link.parameter, value);
        }
        if let Some(precision) = precision {
            parameters.prepare_one(link.parameter, precision);
            blocks.iter().flatten().for_each(|link| weights.forget(&link.theirs));
        }
    }
    Ok(())
}

/// Checks that the arrays of the file and the parameters match exactly; no number is read.
pub(crate) fn check(
    weights: &Weights,
    config: &ModelConfig,
    layout: Layout,
    parameters: &Parameters,
) -> Result<()> {
    matched(weights, config, layout, parameters).map(drop)
}

fn matched(
    weights: &Weights,
    config: &ModelConfig,
    layout: Layout,
    parameters: &Parameters,
) -> Result<Links> {
    let links = Links::new(layout, config, parameters)?;
    let faults = faults(weights, &links);
    if !faults.is_empty() {
        let hint = format!("the config must describe this model, and its names must be those of {layout}");
        return Err(Error::file(weights.path(), listed(&faults), hint));
    }
    Ok(links)
}

/// What is missing, has another shape, or belongs to nothing.
fn faults(weights: &Weights, links: &Links) -> Vec<String> {
    let mut faults = Vec::new();
    let mut known = HashSet::new();
    for group in &links.groups {
        for link in group.iter().filter(|link| known.insert(link.theirs.as_str())) {
            if let Some(found) = weights.shape(&link.theirs).filter(|shape| *shape != link.their_shape) {
                faults.push(format!("tensor {} is {found:?}, expected {:?}", link.theirs, link.their_shape));
            }
        }
        if group.iter().all(|link| weights.shape(&link.theirs).is_none()) {
            let names: Vec<&str> = group.iter().map(|link| link.theirs.as_str()).collect();
            let shape = &group[0].their_shape;
            faults.push(format!("tensor {} is missing, expected {shape:?}", names.join(" or ")));
        }
    }
    let scales =
        |name: &str| name.strip_suffix(SCALE).is_some_and(|weight| weights.dtype(weight) == Some(Dtype::I8));
    let unknown =
        weights.names().filter(|name| !known.contains(name) && !links.ignores(name) && !scales(name));
    faults.extend(unknown.map(|name| format!("tensor {name} is no part of the model")));
    faults.dedup();
    faults
}

fn listed(faults: &[String]) -> String {
    if let [fault] = faults {
        return fault.clone();
    }
    let mut text = format!("{} tensors do not fit the config:", faults.len());
    for fault in faults.iter().take(MOST_LISTED) {
        text += &format!("\n  {fault}");
    }
    if faults.len() > MOST_LISTED {
        text += &format!("\n  and {} more", faults.len() - MOST_LISTED);
    }
    text
}

/// Weights as bytes, with a scale for each row beside them.
fn int8(weights: &Weights, link: &Link) -> Result<Int8Weights> {
    let name = format!("{}{SCALE}", link.theirs);
    let &[d_out, d_in] = link.their_shape.as_slice() else {
        let message = format!("tensor {} is bytes of {:?}, expected a matrix", link.theirs, link.their_shape);
        return Err(Error::file(weights.path(), message, "only matrices are stored as bytes"));
    };
    let scales = weights.tensor(&name)?;
    if scales.shape() != [d_out] {
        let message = format!("tensor {name} is {:?}, expected [{d_out}]", scales.shape());
        return Err(Error::file(weights.path(), message, "a scale for each row of the bytes"));
    }
    if scales.data().iter().any(|scale| !scale.is_finite()) {
        let message = format!("tensor {name} holds what is no finite number");
        return Err(Error::file(weights.path(), message, "quantise the model again"));
    }
    let bytes = weights.int8(&link.theirs)?;
    if bytes.contains(&i8::MIN) {
        let message = format!("tensor {} holds -128, expected bytes from -127 to 127", link.theirs);
        return Err(Error::file(weights.path(), message, "quantise the model again"));
    }
    Ok(Int8Weights::from_rows([d_out, d_in], &bytes, scales.data()))
}

/// One parameter from its blocks of rows; shapes have been checked.
fn value(weights: &Weights, parameters: &Parameters, blocks: &[Vec<Link>]) -> Result<Tensor> {
    let parameter = blocks[0][0].parameter;
    let (_, name, shape) = parameters
        .declared()
        .find(|(id, ..)| *id == parameter)
        .expect("links are made from declared parameters");
    if let [aliases] = blocks {
        return Ok(rows(weights, name, aliases)?.reshaped(shape));
    }
    let mut numbers = Vec::with_capacity(shape.iter().product());
    for aliases in blocks {
        numbers.extend_from_slice(rows(weights, name, aliases)?.data());
    }
    Ok(Tensor::new(shape, numbers))
}

/// The rows that all present aliases agree on.
fn rows(weights: &Weights, name: &str, aliases: &[Link]) -> Result<Tensor> {
    let mut present = aliases.iter().filter(|link| weights.shape(&link.theirs).is_some());
    let first = present.next().expect("what is missing was reported before");
    let rows = cut(weights, first)?;
    if let Some(place) = rows.data().iter().position(|number| !number.is_finite()) {
        let message = format!(
            "tensor {} holds {} at place {place}, expected finite numbers",
            first.theirs,
            rows.data()[place]
        );
        return Err(Error::file(weights.path(), message, "the file is damaged, or training went wrong"));
    }
    for other in present {
        let further = cut(weights, other)?;
        let differing = rows.data().iter().zip(further.data()).position(|(a, b)| a.to_bits() != b.to_bits());
        if let Some(place) = differing {
            let (a, b) = (rows.data()[place], further.data()[place]);
            let message = format!(
                "tensors {} and {} differ ({a} and {b} at place {place}), expected two copies of {name}",
                first.theirs, other.theirs
            );
            let hint = "the config ties what the file does not; correct how its embeddings are shared";
            return Err(Error::file(weights.path(), message, hint));
        }
    }
    Ok(rows)
}

/// The rows of a link, as they stand in the file.
fn cut(weights: &Weights, link: &Link) -> Result<Tensor> {
    let tensor = weights.tensor(&link.theirs)?;
    let numbers = link.their_rows.start * link.width..link.their_rows.end * link.width;
    if numbers.len() == tensor.len() {
        return Ok(tensor);
    }
    Ok(Tensor::new(&[numbers.len()], tensor.data()[numbers].to_vec()))
}
