//! Adam and clipping: the equations in f64, and independence of the number of threads.

use polyhead_tensor::optim::{Adam, AdamOptions, clip_global_norm};
use polyhead_tensor::{Gradients, ParameterId, Parameters, Tape, Tensor, Var};

use crate::finite_difference::{assert_close, assert_same_for_any_threads, bits, numbers, tensor, wide};

/// Gradients with given values: the loss is Σ w·p for each parameter p, its gradient w.
pub(crate) fn given(parameters: &Parameters, wanted: &[(ParameterId, Vec<f32>)]) -> Gradients {
    use polyhead_tensor::ops::linear::{LinearOptions, linear};
    let tape = Tape::training(0, 0);
    let mut total: Option<Var> = None;
    for (id, gradient) in wanted {
        let row = tape.parameter(parameters, *id).reshaped(&[1, gradient.len()]);
        let weights = Var::constant(Tensor::new(&[1, gradient.len()], gradient.clone()));
        let loss = linear(&tape, &row, &weights, None, LinearOptions::default()).unwrap();
        let one = Var::constant(Tensor::new(&[1, 1], vec![1.0]));
        // total + loss: a linear layer with weight 1 and the total as its bias.
        total = Some(match total {
            None => loss,
            Some(total) => {
                linear(&tape, &loss, &one, Some(&total.reshaped(&[1])), LinearOptions::default()).unwrap()
            }
        });
    }
    tape.backward(&total.unwrap())
}

fn two_parameters() -> (Parameters, [ParameterId; 2]) {
    let mut parameters = Parameters::default();
    let ids = [parameters.add("a", tensor(&[3, 5], 1)), parameters.add("b", tensor(&[7], 2))];
    (parameters, ids)
}

#[test]
fn seven_steps_equal_the_equation() {
    for weight_decay in [0.0, 0.1] {
        for (beta1, beta2, epsilon) in [(0.9, 0.999, 1e-8), (0.9, 0.98, 1e-9), (0.5, 0.7, 0.1)] {
            #[allow(clippy::needless_update, reason = "the options may grow")]
            let options = AdamOptions {
                learning_rate: 0.01,
                beta1,
                beta2,
                epsilon,
                weight_decay,
                ..Default::default()
            };
            let [beta1, beta2, epsilon, decay] = [beta1, beta2, epsilon, weight_decay].map(f64::from);
            let (mut parameters, ids) = two_parameters();
            let mut adam = Adam::new(options);
            let mut theta = ids.map(|id| wide(parameters.value(id).data()));
            let mut m = theta.clone().map(|theta| vec![0.0; theta.len()]);
            let mut v = m.clone();
            for t in 1..8 {
                adam.options.learning_rate = 0.01 / t as f32;
                let rate = f64::from(adam.options.learning_rate);
                let wanted: Vec<_> = ids
                    .iter()
                    .zip(&theta)
                    .map(|(&id, theta)| (id, numbers(theta.len(), 50 + t as u64)))
                    .collect();
                let gradients = given(&parameters, &wanted);
                adam.step(&mut parameters, &gradients);
                for (side, (_, gradient)) in wanted.iter().enumerate() {
                    for (i, &g) in gradient.iter().enumerate() {
                        let g = f64::from(g);
                        m[side][i] = beta1 * m[side][i] + (1.0 - beta1) * g;
                        v[side][i] = beta2 * v[side][i] + (1.0 - beta2) * g * g;
                        let m_hat = m[side][i] / (1.0 - beta1.powi(t));
                        let v_hat = v[side][i] / (1.0 - beta2.powi(t));
                        theta[side][i] -= rate * (m_hat / (v_hat.sqrt() + epsilon) + decay * theta[side][i]);
                    }
                }
                for (id, theta) in ids.iter().zip(&theta) {
                    assert_close(&format!("step {t}"), parameters.value(*id).data(), theta, 1e-6);
                }
            }
        }
    }
}

#[test]
fn a_parameter_without_gradient_is_unchanged() {
    let (mut parameters, [a, b]) = two_parameters();
    let before = bits(parameters.value(b).data());
    #[allow(clippy::needless_update, reason = "the options may grow")]
    let mut adam = Adam::new(AdamOptions { weight_decay: 0.5, ..Default::default() });
    let gradients = given(&parameters, &[(a, numbers(15, 3))]);
    adam.step(&mut parameters, &gradients);
    assert_eq!(bits(parameters.value(b).data()), before);
}

#[test]
fn a_zero_gradient_changes_nothing() {
    let (mut parameters, [a, _]) = two_parameters();
    let before = bits(parameters.value(a).data());
    let gradients = given(&parameters, &[(a, vec![0.0; 15])]);
    Adam::new(AdamOptions::default()).step(&mut parameters, &gradients);
    assert_eq!(bits(parameters.value(a).data()), before);
}

#[test]
fn clipping_is_by_the_norm_of_all_together() {
    let (parameters, [a, b]) = two_parameters();
    let wanted = [(a, numbers(15, 3)), (b, numbers(7, 4))];
    let squares = wanted.iter().flat_map(|(_, gradient)| gradient).map(|&g| f64::from(g).powi(2));
    let norm = squares.sum::<f64>().sqrt();
    for max_norm in [0.1_f32, 1.0, 100.0] {
        let mut gradients = given(&parameters, &wanted);
        let before = clip_global_norm(&mut gradients, max_norm);
        assert!((f64::from(before) / norm - 1.0).abs() < 1e-6, "{before} {norm}");
        let factor = (f64::from(max_norm) / norm).min(1.0);
        assert_eq!(gradients.parameters().count(), 2);
        for (id, gradient) in gradients.parameters() {
            let (_, old) = wanted.iter().find(|(known, _)| *known == id).unwrap();
            let expected: Vec<f64> = wide(old).iter().map(|g| g * factor).collect();
            assert_close("clipped", gradient.data(), &expected, 1e-6);
            if factor == 1.0 {
                assert_eq!(bits(gradient.data()), bits(old));
            }
        }
    }
}

#[test]
fn a_norm_of_zero_is_not_scaled() {
    let (parameters, [a, _]) = two_parameters();
    let mut gradients = given(&parameters, &[(a, vec![0.0; 15])]);
    assert_eq!(clip_global_norm(&mut gradients, 1.0), 0.0);
    assert!(gradients.parameters().all(|(_, gradient)| gradient.data().iter().all(|&g| g == 0.0)));
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    assert_same_for_any_threads(|| {
        let mut parameters = Parameters::default();
        let id = parameters.add("large", tensor(&[301, 333], 1));
        let mut adam = Adam::new(AdamOptions::default());
        let mut norms = Vec::new();
        for step in 0..3 {
            let mut gradients = given(&parameters, &[(id, numbers(301 * 333, 10 + step))]);
            norms.push(clip_global_norm(&mut gradients, 1.0));
            adam.step(&mut parameters, &gradients);
        }
        (bits(&norms), bits(parameters.value(id).data()))
    });
}
