// SPDX-License-Identifier: Apache-2.0
//! Fits y = 3 x - 1 on every device, through wrappers that are safe: an object is destroyed once,
//! before the strategy, and each failure is an `Error` with the library's message.
use ringfire_sys as rf;
use std::{ffi::CStr, fmt, os::raw::c_void, ptr};

#[derive(Debug)]
struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for Error {}

fn check(result: rf::rf_result::Type) -> Result<(), Error> {
    if result >= 0 {
        return Ok(());
    }
    // The message is a string of this thread, valid until its next failure.
    Err(Error(unsafe { CStr::from_ptr(rf::rf_error_message()) }.to_string_lossy().into_owned()))
}

struct Strategy(*mut rf::rf_strategy);

impl Strategy {
    fn mirrored() -> Result<Self, Error> {
        let mut strategy = ptr::null_mut();
        check(unsafe { rf::rf_strategy_create_mirrored(ptr::null(), &mut strategy) })?;
        Ok(Strategy(strategy))
    }
    fn replicas(&self) -> u32 {
        unsafe { rf::rf_strategy_num_replicas_in_sync(self.0) }
    }
}

impl Drop for Strategy {
    fn drop(&mut self) {
        unsafe { rf::rf_strategy_destroy(&mut self.0) }
    }
}

/// Slope and offset, with an optimizer and the step that trains them. The step has a pointer to the
/// parts, which stay where they are in a box.
struct Line<'s> {
    strategy: &'s Strategy,
    function: *mut rf::rf_function,
    parts: Box<Parts>,
}

struct Parts {
    variables: [*mut rf::rf_variable; 2],
    optimizer: *mut rf::rf_optimizer,
}

unsafe extern "C" fn step(
    t: *mut rf::rf_trace,
    input: *const rf::rf_tensor,
    out: *mut rf::rf_tensor,
    user: *mut c_void,
) -> rf::rf_result::Type {
    let parts = &mut *(user as *mut Parts);
    let [slope, offset] = parts.variables.map(|v| rf::rf_variable_tensor(t, v));
    let line = rf::rf_add(t, rf::rf_multiply(t, *input, slope), offset);
    let losses = rf::rf_mean_squared_error(t, *input.add(1), line);
    *out = rf::rf_compute_average_loss(t, losses, ptr::null());
    let trained = rf::rf_variable_list { items: parts.variables.as_ptr(), count: 2 };
    rf::rf_optimizer_minimize(t, parts.optimizer, *out, trained);
    rf::rf_trace_status(t)
}

fn shape(dimensions: &[i64]) -> rf::rf_shape {
    let mut shape = rf::rf_shape { rank: dimensions.len() as i32, dim: [0; 6] };
    shape.dim[..dimensions.len()].copy_from_slice(dimensions);
    shape
}

impl<'s> Line<'s> {
    fn create(strategy: &'s Strategy, learning_rate: f64) -> Result<Self, Error> {
        let parts = Box::new(Parts { variables: [ptr::null_mut(); 2], optimizer: ptr::null_mut() });
        let mut line = Line { strategy, function: ptr::null_mut(), parts };
        // All zeros are valid in every params struct of the library: the default.
        unsafe {
            for variable in &mut line.parts.variables {
                let mut params: rf::rf_variable_params = std::mem::zeroed();
                params.shape = shape(&[1]);
                check(rf::rf_variable_create(strategy.0, &params, variable))?;
            }
            let mut params: rf::rf_optimizer_params = std::mem::zeroed();
            params.learning_rate = learning_rate;
            check(rf::rf_optimizer_create(strategy.0, &params, &mut line.parts.optimizer))?;
            let mut params: rf::rf_function_params = std::mem::zeroed();
            params.step = Some(step);
            params.user = &mut *line.parts as *mut Parts as *mut c_void;
            params.num_outputs = 1;
            params.training = true;
            check(rf::rf_function_create(strategy.0, &params, &mut line.function))?;
        }
        Ok(line)
    }

    /// One step on a batch; the loss.
    fn train(&mut self, x: &mut [f32], y: &mut [f32]) -> Result<f32, Error> {
        assert_eq!(x.len(), y.len());
        let rows = shape(&[x.len() as i64, 1]);
        let mut loss = 0.0;
        unsafe {
            let mut batch: rf::rf_element = std::mem::zeroed();
            batch.num_components = 2;
            for (component, values) in batch.component.iter_mut().zip([x, y]) {
                component.dtype = rf::rf_dtype::RF_F32;
                component.shape = rows;
                component.data = values.as_mut_ptr() as *mut c_void;
            }
            let mut result = ptr::null_mut();
            check(rf::rf_strategy_run(self.strategy.0, self.function, &batch, &mut result))?;
            let sum = rf::rf_reduce_op::RF_REDUCE_SUM;
            check(rf::rf_strategy_reduce(self.strategy.0, sum, result, &mut loss))?;
        }
        Ok(loss)
    }

    fn read(&self) -> Result<[f32; 2], Error> {
        let mut values = [0.0; 2];
        for (value, variable) in values.iter_mut().zip(self.parts.variables) {
            check(unsafe { rf::rf_variable_read(variable, value) })?;
        }
        Ok(values)
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        unsafe {
            rf::rf_function_destroy(&mut self.function);
            rf::rf_optimizer_destroy(&mut self.parts.optimizer);
            for variable in &mut self.parts.variables {
                rf::rf_variable_destroy(variable);
            }
        }
    }
}

fn main() -> Result<(), Error> {
    let strategy = Strategy::mirrored()?;
    let mut line = Line::create(&strategy, 0.1)?;
    let mut x: Vec<f32> = (0..16).map(|i| i as f32 / 8.0 - 1.0).collect();
    let mut y: Vec<f32> = x.iter().map(|x| 3.0 * x - 1.0).collect();
    let mut loss = 0.0;
    for _ in 0..200 {
        loss = line.train(&mut x, &mut y)?;
    }
    let [slope, offset] = line.read()?;
    println!("{} replicas, loss {loss:.6}: y = {slope:.3} x + {offset:.3}", strategy.replicas());
    if (slope - 3.0).abs() > 0.01 || (offset + 1.0).abs() > 0.01 {
        return Err(Error("that is another line".into()));
    }
    Ok(())
}
